"""The yardstick: what a prompt shares with all earlier ones."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from runtime.prefix import as_tokens
from runtime.tree.history import PromptHistory


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


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=10), min_size=1, max_size=30),
    st.integers(4, 40),
    st.integers(1, 30),
    st.sets(st.integers(0, 29), max_size=4),
)
def test_what_was_not_met_for_longest_is_forgotten_and_the_rest_is_as_if_nothing_else_had_been(
    prompts, most, most_prompts, needed
):
    history = PromptHistory(most, most_prompts)
    needed = {number for number in needed if number < len(prompts)}
    for number, ids in enumerate(prompts):
        assert history.add(as_tokens(ids)) == history.latest == number
        history.mark_evaluated(as_tokens(ids))
        history.forget({other for other in needed if other <= number} | {number})
        kept = history.numbers
        assert kept >= {other for other in needed if other <= number} | {number}
        assert len(kept) <= most_prompts or kept == {other for other in needed if other <= number} | {number}
        assert history.tokens <= most or all(
            any(common(prompts[k], prompts[n]) == len(prompts[k]) for n in needed | {number}) for k in kept
        )
        assert history.tokens == len({tuple(prompts[k][:end]) for k in kept for end in range(1, len(prompts[k]) + 1)})
        for one in kept:
            assert [history.common(one, other) for other in kept] == [common(prompts[one], prompts[o]) for o in kept]
        for ids in prompts:
            shared = history.shared(as_tokens(ids))
            assert shared.prompted == max(common(ids, prompts[k]) for k in kept)
            assert shared.nearest == max(k for k in kept if common(ids, prompts[k]) == shared.prompted)


def test_of_many_prompts_the_latest_are_remembered():
    history = PromptHistory(10_000)
    for number in range(100):
        history.add(as_tokens(range(number * 1_000, number * 1_000 + 1_000)))
        history.forget({number})
    assert 7_500 <= history.tokens <= 10_000
    assert history.shared(as_tokens(range(99_000, 99_500))).prompted == 500
    assert history.shared(as_tokens(range(500))).prompted == 0


def test_a_prompt_that_comes_again_and_again_does_not_fill_the_history():
    history = PromptHistory(most_prompts=100)
    for number in range(1_000):
        history.add(as_tokens(range(50)))
        history.forget({number})
        assert len(history.numbers) <= 100
    assert history.shared(as_tokens(range(60))) == (50, 0, 999)
