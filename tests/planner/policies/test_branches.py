from __future__ import annotations

from typing import Any

import pytest

from planner import Budget, Candidate, Existing, Plan, PlanRequest, PlanRequestError, plan

HELPER = (Candidate(600, "system_end"),)


def beside(offset: int, *, returns: float = 0.0, age: int = 1, shared: int = 500) -> Existing:
    return Existing(offset, 10, age, identity=f"main:{offset}", shared=shared, returns=returns)


def planned(*existing: Existing, k: int | None = 4, **rest: Any) -> Plan:
    fields = {"common_prefix": 500, "budget": Budget(k), "existing": existing, **rest}
    return plan(PlanRequest(2000, HELPER, **fields))


def gone(made: Plan) -> set[str | None]:
    return {eviction.identity for eviction in made.evict}


def test_the_last_state_of_a_conversation_just_left_is_kept_beside_a_helpers() -> None:
    made = planned(beside(90_000))
    assert gone(made) == set()
    assert 0 < len(made.kept) <= 3


def test_a_state_that_prompts_come_back_to_outlives_one_that_they_do_not() -> None:
    made = planned(beside(9000, returns=0.5), beside(40_000, returns=0.0001), beside(90_000), k=3)
    assert "main:9000" not in gone(made)
    assert "main:40000" in gone(made)


def test_a_conversation_not_gone_back_to_for_long_makes_room() -> None:
    assert gone(planned(beside(90_000, age=300), k=2)) == {"main:90000"}


def test_a_conversation_whose_messages_are_known_makes_room_sooner() -> None:
    helper = (Candidate(600, "system_end"), Candidate(1000, "assistant_start"))
    made = plan(PlanRequest(2000, helper, budget=Budget(2), existing=(beside(90_000, age=20, shared=0),)))
    assert gone(made) == {"main:90000"}
    assert not gone(planned(beside(90_000, age=20, shared=0), k=2))


def test_room_is_shared_by_what_is_saved_in_it_and_not_by_the_best_that_could_be() -> None:
    marks = (("system_end", 1400), ("user_start", 1700), ("generation_prompt", 1990))
    candidates = tuple(Candidate(offset, kind) for kind, offset in marks)  # type: ignore[arg-type]
    states = [Existing(1900, 10, 6, f"{i}:1900", shared=0, branch=i) for i in range(8)]
    made = plan(PlanRequest(2000, candidates, budget=Budget(8), existing=tuple(states)))
    # With room for one the start of the answer is saved; the end of the system text alone would have been worth more.
    assert made.kept == (1400, 1990)
    assert len(states) - len(made.evict) == 6


@pytest.mark.parametrize("k", range(6))
def test_all_states_together_are_within_the_budget(k: int) -> None:
    states = [beside(offset, returns=0.1) for offset in range(10_000, 60_000, 10_000)]
    made = planned(*states, k=k)
    assert len(made.kept) + len(states) - len(made.evict) <= k


def test_all_states_together_are_within_the_budget_in_bytes() -> None:
    states = [beside(offset, returns=0.1) for offset in range(10_000, 60_000, 10_000)]
    made = planned(*states, budget=Budget(bytes=45), state_bytes=10)
    assert 10 * (len(made.kept) + len(states) - len(made.evict)) <= 45


def test_a_state_of_another_conversation_is_never_restored() -> None:
    made = planned(beside(480, shared=100), Existing(300))
    assert made.restore is not None
    assert made.restore.offset == 300


def test_two_conversations_may_hold_a_state_at_the_same_offset() -> None:
    other = Existing(90_000, 10, 1, identity="other:90000", shared=400)
    made = planned(beside(90_000), other, k=1)
    assert gone(made) >= {"main:90000"} or gone(made) >= {"other:90000"}


def test_a_state_of_another_conversation_needs_a_name() -> None:
    with pytest.raises(PlanRequestError, match=r"existing\[0\]\.identity"):
        PlanRequest(2000, existing=(Existing(900, shared=10),))


def test_policies_that_know_one_conversation_lose_the_others() -> None:
    assert gone(planned(beside(90_000), policy="near-end-pair")) == {"main:90000"}


def test_what_each_kept_state_would_serve_adds_up_to_what_is_expected() -> None:
    made = planned(k=8)
    assert list(made.returns) == list(made.kept)
    assert all(number >= 0 for number in made.returns.values())
    assert sum(made.returns.values()) > 0
