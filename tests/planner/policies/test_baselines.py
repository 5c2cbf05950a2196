from __future__ import annotations

from typing import Any

import pytest

from planner import Budget, Candidate, Existing, Plan, PlanRequest, plan

USERS = (
    Candidate(1000, "system_end"),
    Candidate(1100, "assistant_start"),
    Candidate(4000, "user_start"),
    Candidate(12000, "user_start"),
    Candidate(12100, "user_start"),
    Candidate(19000, "user_start"),
)


def planned(policy: Any, length: int = 20_000, *, stored: tuple[int, ...] = (), k: int = 8, **rest: Any) -> Plan:
    """With `stored` checkpoints, all of them shared and of equal age."""
    shared = max(stored, default=0)
    existing = tuple(Existing(offset, age=1) for offset in stored)
    values = {"common_prefix": shared, "existing": existing, "budget": Budget(k), "policy": policy, **rest}
    return plan(PlanRequest(length, **values))


def test_none_keeps_nothing() -> None:
    made = planned("none", stored=(5000, 9000))
    assert made.kept == made.saves == ()
    assert made.breaks == 0
    assert [eviction.offset for eviction in made.evict] == [5000, 9000]


def test_none_still_starts_from_what_is_there() -> None:
    made = planned("none", stored=(5000, 9000))
    assert made.restore is not None
    assert made.restore.offset == 9000


def test_every_n_saves_at_multiples_and_at_the_end() -> None:
    assert planned("every-n").saves == (8192, 16384, 20000)
    assert planned("every-n", every_n=5000, stored=(7000,)).saves == (10000, 15000, 20000)


def test_the_near_end_pair_is_one_micro_batch_apart() -> None:
    assert planned("near-end-pair").saves == (20000 - 4 - 512, 20000 - 4)
    assert planned("near-end-pair", n_ubatch=128).saves == (20000 - 4 - 128, 20000 - 4)
    assert planned("near-end-pair", n_batch=256).saves == (20000 - 256, 20000 - 4)


def test_the_near_end_pair_saves_only_what_is_evaluated() -> None:
    assert planned("near-end-pair", stored=(19_800,)).saves == (19_996,)
    assert planned("near-end-pair", length=4).saves == ()


def test_shallow_saves_four_tokens_before_the_end() -> None:
    assert planned("shallow").saves == (19_996,)


def test_deferred_saves_at_the_end_without_a_break() -> None:
    made = planned("deferred")
    assert made.saves == (20_000,)
    assert made.breaks == 0


@pytest.mark.parametrize("policy", ["every-n", "near-end-pair", "shallow", "deferred", "barriers"])
def test_the_oldest_is_dropped_first(policy: str) -> None:
    made = planned(policy, stored=(5000, 6000, 9000), k=3, min_step=0)
    dropped = [eviction.offset for eviction in made.evict]
    assert dropped
    assert dropped == [5000, 6000, 9000][: len(dropped)]


def test_the_oldest_is_the_one_saved_first_wherever_it_is() -> None:
    existing = (Existing(5000, age=1), Existing(9000, age=4))
    made = plan(PlanRequest(20_000, common_prefix=9000, existing=existing, budget=Budget(2), policy="shallow"))
    assert [eviction.offset for eviction in made.evict] == [9000]


def test_a_state_that_is_there_already_is_not_saved_again() -> None:
    made = planned("near-end-pair", stored=(19_484, 19_996), common_prefix=20_000, live=None)
    assert made.restore is not None
    assert made.restore.offset == 19_996
    assert made.saves == ()


def test_a_budget_in_bytes_drops_the_oldest_too() -> None:
    made = planned("shallow", stored=(5000, 9000), budget=Budget(bytes=250), state_bytes=100)
    assert made.kept == (9000, 19_996)


def test_a_budget_of_nothing_saves_nothing() -> None:
    for policy in ("every-n", "near-end-pair", "shallow", "deferred", "barriers"):
        assert planned(policy, k=0, candidates=USERS).saves == ()


def test_what_is_saved_and_dropped_in_one_prompt_stays_a_break() -> None:
    made = planned("every-n", every_n=5000, k=2)
    assert made.saves == (15_000, 20_000)
    assert [(step.end, step.save) for step in made.steps] == [
        (5000, False),
        (10_000, False),
        (15_000, True),
        (20_000, True),
    ]


def test_media_are_never_split() -> None:
    made = planned("near-end-pair", forbidden=((19_900, 19_998),))
    assert made.saves == (19_484,)


class TestBarriers:
    """What llama.cpp's server does at b11549."""

    def test_user_messages_are_saved_min_step_apart_and_the_last_always(self) -> None:
        made = planned("barriers", candidates=USERS)
        assert made.saves == (1000, 12_000, 19_000, 19_484, 19_996)

    def test_a_batch_also_ends_at_the_user_message_after_a_saved_one(self) -> None:
        # The list does not hold the one before yet when the batch that starts there is filled.
        made = planned("barriers", candidates=USERS)
        assert [step.end for step in made.steps if not step.save] == [12_100, 20_000]

    def test_min_step_zero_saves_all_user_messages(self) -> None:
        made = planned("barriers", candidates=USERS, min_step=0)
        assert made.saves == (1000, 4000, 12_000, 12_100, 19_000, 19_484, 19_996)

    def test_a_full_list_first_loses_what_is_close_to_its_predecessor(self) -> None:
        made = planned("barriers", stored=(1000, 1500, 2000, 18_000), k=5, min_step=8192)
        assert [(eviction.offset, eviction.before) for eviction in made.evict] == [(1500, 19_484), (2000, 19_996)]
        assert made.kept == (1000, 18_000, 19_484, 19_996)

    def test_a_list_with_room_is_not_thinned(self) -> None:
        assert planned("barriers", stored=(1000, 1500, 2000, 18_000), k=8).evict == ()

    def test_what_this_prompt_saved_is_not_thinned(self) -> None:
        made = planned("barriers", candidates=(Candidate(19_000, "user_start"),), k=3)
        assert made.kept == (19_000, 19_484, 19_996)

    def test_tool_results_and_answers_are_no_barriers(self) -> None:
        candidates = (Candidate(9000, "assistant_start"), Candidate(17_000, "tool_start"))
        assert planned("barriers", candidates=candidates).saves == (19_484, 19_996)

    def test_the_middle_of_a_long_message_is_not_saved(self) -> None:
        assert planned("barriers", 80_000).saves == (79_484, 79_996)

    def test_what_a_short_continuation_starts_from_is_saved_before_anything_is_evaluated(self) -> None:
        made = planned("barriers", 9300, stored=(4000,), common_prefix=9000, live=9000)
        assert made.saves == (9000, 9296)
        assert (made.steps[0].begin, made.steps[0].end) == (9000, 9000)
        assert made.breaks == 1

    def test_what_a_long_continuation_starts_from_is_not(self) -> None:
        assert planned("barriers", 9600, common_prefix=9000, live=9000).saves == (9084, 9596)

    def test_a_checkpoint_that_is_started_from_counts_as_the_newest(self) -> None:
        # It was saved first, yet the other goes for the state near the end.
        existing = (Existing(4000, age=3), Existing(3500, age=2))
        made = planned("barriers", 4100, existing=existing, common_prefix=4050, k=2, min_step=0)
        assert made.restore is not None
        assert made.restore.offset == 4000
        assert made.kept == (4000, 4096)

    def test_with_room_for_one_state_what_is_started_from_is_not_worth_a_step(self) -> None:
        made = planned("barriers", 9300, common_prefix=9000, live=9000, k=1)
        assert made.kept == (9296,)
        assert made.steps[0].begin < made.steps[0].end

    def test_the_old_copy_of_what_is_started_from_may_be_the_one_that_is_thinned_out(self) -> None:
        # Met beside the server: the same prompt once more, three places, all full.
        existing = (Existing(315, age=4), Existing(520, age=1), Existing(552, age=1))
        made = planned("barriers", 556, existing=existing, common_prefix=556, live=556, k=3, min_step=100)
        assert made.kept == (315, 520, 552)
