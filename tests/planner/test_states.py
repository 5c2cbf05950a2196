"""The books of states: what a prompt sees of them, and what becomes of them when a plan goes otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import Budget, Candidate, PlanRequest, States, plan

PROMPTS = ["aaaa", "aaaabbbb", "aaaabbbbcccc", "aaaaXX", "ZZZZ", "aaaabbbbdd"]
"""A letter stands for a hundred tokens."""

REQUEST = PlanRequest(400, (Candidate(100, "system_end"), Candidate(300, "user_start")), state_bytes=10)


def alike(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return 100 * next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def common(i: int, j: int) -> int:
    assert i > j, "the later prompt comes first"
    return alike(PROMPTS[i], PROMPTS[j])


def books(*saved: tuple[int, int]) -> States:
    states = States(common)
    for prompt, offset in saved:
        assert states.save(prompt, offset, 10)
    return states


def test_a_state_is_on_the_path_of_every_prompt_that_begins_with_its_tokens() -> None:
    (seen,) = books((0, 400)).seen_from(3, branches=True).values()
    assert (seen.offset, seen.shared, seen.identity, seen.beside) == (400, 400, "0:400", False)


def test_states_of_one_other_conversation_have_one_branch_number() -> None:
    states = books((1, 600), (2, 1200), (3, 500))
    seen = states.seen_from(4, branches=True)
    assert all(existing.beside for existing in seen.values())
    assert seen["1:600"].branch == seen["2:1200"].branch != seen["3:500"].branch
    assert not states.seen_from(4, branches=False)


def test_ages_count_from_the_last_prompt_that_used_a_state() -> None:
    states = books((0, 400))
    states.settle(2, {400: 0.5})
    (seen,) = states.seen_from(3, branches=True).values()
    assert (seen.age, seen.returns) == (1, 0.5)


def test_a_prompt_that_ends_late_makes_no_state_older() -> None:
    states = books((0, 400))
    states.settle(3, {})
    states.settle(1, {})
    assert states["0:400"].used == 3
    assert states.seen_from(2, branches=True)["0:400"].age == 0


def test_what_an_unsaved_state_would_have_served_falls_to_the_one_before_it() -> None:
    states = books((2, 400), (2, 800))
    states.settle(2, {200: 0.1, 400: 0.2, 600: 0.3, 1200: 0.4})
    assert [state.returns for state in states] == pytest.approx([0.5, 0.4])


def test_the_same_tokens_are_stored_once() -> None:
    states = books((0, 400))
    assert states.save(1, 400, 10) is None
    assert states.save(4, 400, 10) is not None
    assert [state.identity for state in states] == ["0:400", "4:400"]
    assert states.bytes == 20


def test_losses_are_told_to_prompts_on_whose_path_they_lie() -> None:
    states = books((1, 600), (3, 500))
    assert states.give_up("1:600").offset == 600
    states.give_up("3:500", "state-missing")
    states.miss(2, 1000, "budget")
    assert states.lost(5) == {600: "evicted"}
    assert states.lost(2) == {600: "evicted", 1000: "budget"}
    assert not states.lost(4)
    states.forget_losses({2, 3})
    assert states.lost(2) == {1000: "budget"}


def test_an_eviction_of_what_has_gone_meanwhile_is_passed_over() -> None:
    states = books((1, 100), (1, 200), (1, 600))
    request = replace(REQUEST, prompt_tokens=1200, budget=Budget(1), common_prefix=800)
    seen = states.seen_from(2, branches=True)
    made = plan(replace(request, existing=tuple(seen.values())))
    first = next(eviction for eviction in made.evict)
    states.give_up(first.identity or "")
    gone = states.begin(made, 2, seen)
    for saved in made.saves:
        gone += states.make_room(made, 2, saved)
    assert {state.offset for state in gone} == {e.offset for e in made.evict} - {first.offset}


def test_what_a_plan_does_not_know_of_goes_at_its_beginning() -> None:
    states = books((3, 500), (1, 600))
    seen = states.seen_from(2, branches=False)
    made = plan(replace(REQUEST, prompt_tokens=1200, common_prefix=800, existing=tuple(seen.values())))
    assert [state.identity for state in states.begin(made, 2, seen)] == ["3:500"]


@given(
    order=st.lists(st.sampled_from(range(len(PROMPTS))), min_size=1, max_size=12),
    count=st.integers(0, 3),
    timeout=st.none() | st.just(1.0),
)
def test_step_by_step_the_books_are_those_of_a_whole_plan(order: list[int], count: int, timeout: float | None) -> None:
    def shared(i: int, j: int) -> int:
        return alike(PROMPTS[order[i]], PROMPTS[order[j]])

    whole, steps = States(shared), States(shared)
    for prompt, which in enumerate(order):
        length = 100 * len(PROMPTS[which])
        seen = whole.seen_from(prompt, branches=True)
        assert steps.seen_from(prompt, branches=True) == seen
        request = replace(
            REQUEST,
            prompt_tokens=length,
            candidates=tuple(c for c in REQUEST.candidates if c.offset < length),
            common_prefix=max((shared(prompt, earlier) for earlier in range(prompt)), default=0),
            existing=tuple(seen.values()),
            budget=Budget(count),
            timeout=timeout,
        )
        made = plan(request)
        whole.carry_out(made, request, prompt, seen)
        steps.begin(made, prompt, seen)
        for offset in made.saves:
            steps.make_room(made, prompt, offset)
            steps.save(prompt, offset, 10)
            assert len(steps) <= count
        steps.settle(prompt, made.returns)
        assert list(steps) == list(whole)
        assert {state.offset for state in steps if state.owner == prompt} <= set(made.kept)
