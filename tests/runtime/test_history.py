"""The yardstick: what a prompt shares with all earlier ones."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from runtime.history import PromptHistory
from runtime.prefix import as_tokens


def common(a, b):
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


prompts = st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=10), st.integers(0, 10)), max_size=12)


@given(prompts, st.lists(st.integers(0, 2), max_size=10))
def test_it_finds_the_longest_prefix_among_all_prompts_and_among_their_evaluated_parts(earlier, prompt):
    history = PromptHistory()
    for ids, evaluated in earlier:
        history.add(as_tokens(ids))
        history.mark_evaluated(as_tokens(ids[:evaluated]))
    shared = history.shared(as_tokens(prompt))
    prompted = max((common(prompt, ids) for ids, _ in earlier), default=0)
    evaluated = max((common(prompt, ids[:part]) for ids, part in earlier), default=0)
    assert (shared.prompted, shared.evaluated) == (prompted, evaluated)
    nearest = max((number for number, (ids, _) in enumerate(earlier) if common(prompt, ids) == prompted), default=None)
    assert shared.nearest == nearest


@given(st.lists(st.lists(st.integers(0, 2), max_size=10), min_size=1, max_size=12))
def test_what_any_two_prompts_share_is_known(prompts):
    history = PromptHistory()
    for number, ids in enumerate(prompts):
        assert history.add(as_tokens(ids)) == history.latest == number
    for i, one in enumerate(prompts):
        assert history.length(i) == len(one)
        assert [history.common(i, j) for j in range(len(prompts))] == [common(one, other) for other in prompts]


def test_it_keeps_no_view_of_the_callers_array():
    history, prompt = PromptHistory(), as_tokens([1, 2, 3]).copy()
    history.add(prompt)
    prompt[:] = 9
    assert history.shared(as_tokens([1, 2, 3])).prompted == 3
