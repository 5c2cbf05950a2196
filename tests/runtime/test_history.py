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
        history.add(as_tokens(ids), min(evaluated, len(ids)))
    shared = history.shared(as_tokens(prompt))
    prompted = max((common(prompt, ids) for ids, _ in earlier), default=0)
    evaluated = max((common(prompt, ids[:part]) for ids, part in earlier), default=0)
    assert (shared.prompted, shared.evaluated) == (prompted, evaluated)


def test_it_keeps_no_view_of_the_callers_array():
    history, prompt = PromptHistory(), as_tokens([1, 2, 3]).copy()
    history.add(prompt, 3)
    prompt[:] = 9
    assert history.shared(as_tokens([1, 2, 3])).prompted == 3
