from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import Budget, Candidate, Costs, Existing, Likely, Plan, PlanRequest, compare, plan
from planner.policies.adaptive import cost_of, place_adaptive, possible_places
from planner.policies.situation import Placement, situate

FREE = Costs(per_break=0.0, per_save=0.0, per_restore=0.0)
SLOW = Costs(per_save=0.5)
PIPELINE = Costs(per_break=10.0)

AGENT = (
    Candidate(9000, "system_end"),
    Candidate(9300, "assistant_start"),
    *(Candidate(9300 + 1000 * i, "tool_start") for i in range(1, 20)),
    Candidate(29_996, "generation_prompt"),
)


def planned(length: int = 30_000, *, stored: tuple[int, ...] = (), k: int = 8, **rest: Any) -> Plan:
    existing = tuple(Existing(offset, age=1) for offset in stored)
    values = {"common_prefix": max(stored, default=0), "existing": existing, "budget": Budget(k), **rest}
    return plan(PlanRequest(length, **values))


def test_system_text_last_user_message_and_tip_are_saved() -> None:
    assert set(planned(candidates=AGENT).saves) >= {9000, 9300, 29_996}


@pytest.mark.parametrize("k", range(9))
def test_no_more_is_saved_than_the_budget_allows(k: int) -> None:
    assert len(planned(candidates=AGENT, k=k).kept) <= k


def test_without_a_limit_only_what_pays_is_saved() -> None:
    cheap, dear = planned(candidates=AGENT, budget=Budget()), planned(candidates=AGENT, budget=Budget(), costs=SLOW)
    assert len(cheap.saves) > 2 * len(dear.saves) > 8


def test_pinned_states_outlive_all_others() -> None:
    stored = (9000, 9300, *range(11_300, 27_000, 3000))
    made = planned(candidates=AGENT, stored=stored, k=len(stored))
    assert len(made.evict) == len(made.saves) > 0
    assert {9000, 9300} <= set(made.kept)


def test_with_room_for_less_than_the_pins_the_most_valuable_of_them_are_kept() -> None:
    # Without the end of the last user message 300 tokens are lost, without that of the system text 9,000.
    made = planned(candidates=AGENT, stored=(9000, 9300, 20_000), k=2)
    assert made.kept == (9000, 29_996)


def test_with_room_for_one_state_the_tail_is_kept() -> None:
    # One prompt ahead the old one is worth more, but what follows it would be replayed by every prompt to come.
    candidates = (*AGENT[:6], Candidate(13_996, "generation_prompt"))
    assert planned(14_000, candidates=candidates, stored=(9300,), k=1, common_prefix=13_500).kept == (13_996,)


def test_with_room_for_one_state_a_dear_break_moves_the_tail_to_the_prompt_end() -> None:
    made = planned(candidates=AGENT, stored=(20_000,), k=1, costs=Costs(per_break=1000.0))
    assert made.kept == (30_000,)


def test_with_room_for_one_state_and_nothing_worth_a_save_the_last_that_is_stored_is_kept() -> None:
    made = planned(candidates=AGENT, stored=(9000, 29_990), k=1)
    assert made.kept == (29_990,)


def test_a_tail_that_the_live_state_serves_yields_to_a_rollback_that_costs_more() -> None:
    candidates = (*AGENT[:6], Candidate(13_996, "generation_prompt"))
    made = planned(14_000, candidates=candidates, stored=(9300,), k=1, common_prefix=13_500, live=13_500)
    assert made.kept == (9300,)


def test_a_tail_that_does_not_fit_the_bytes_yields_to_what_does() -> None:
    existing = (Existing(9000, bytes=10, age=1), Existing(29_996, bytes=100, age=1))
    made = planned(candidates=AGENT, existing=existing, common_prefix=29_996, state_bytes=10, budget=Budget(bytes=50))
    assert made.kept == (9000,)


def test_a_state_is_given_up_only_for_room() -> None:
    stored = tuple(range(9300, 9320))
    assert planned(candidates=AGENT, stored=stored, k=40).evict == ()


def test_evictions_name_the_save_they_make_room_for() -> None:
    stored = (9000, 9300, *range(11_300, 29_000, 2000))
    made = planned(candidates=AGENT, stored=stored, k=len(stored))
    assert [eviction.before for eviction in made.evict] == [*made.saves]


def test_a_smaller_budget_is_met_before_anything_else() -> None:
    made = planned(candidates=AGENT, stored=(9000, 9300, 12_300, 18_300, 25_300), k=3)
    assert [eviction.before for eviction in made.evict[:2]] == [None, None]


def test_states_past_the_common_prefix_go_at_once() -> None:
    made = planned(candidates=AGENT, stored=(9000, 9300, 12_300), common_prefix=10_000)
    assert [(eviction.offset, eviction.before) for eviction in made.evict] == [(12_300, None)]


def test_two_offsets_a_few_tokens_apart_are_not_both_saved_even_for_nothing() -> None:
    made = planned(candidates=(*AGENT, Candidate(29_990, "tool_start")), costs=FREE, budget=Budget())
    assert 29_996 in made.saves
    assert 30_000 not in made.saves


def test_a_long_generation_prompt_is_worth_a_state_near_its_end() -> None:
    candidates = (*AGENT[:-1], Candidate(29_900, "generation_prompt"))
    assert 29_996 in planned(candidates=candidates, costs=FREE, budget=Budget()).saves


def test_a_dear_break_is_taken_only_where_it_pays() -> None:
    cheap, dear = planned(candidates=AGENT, costs=FREE), planned(candidates=AGENT, costs=PIPELINE)
    assert cheap.breaks == 8
    assert dear.breaks < 3


def test_a_break_that_pays_nowhere_leaves_the_save_at_the_end() -> None:
    made = planned(candidates=AGENT, costs=Costs(per_break=1000.0))
    assert made.breaks == 0
    assert made.saves == (30_000,)


def test_a_long_message_is_divided() -> None:
    made = planned(80_000, k=8)
    gaps = [b - a for a, b in zip((0, *made.kept), made.kept, strict=False)]
    assert max(gaps) <= 80_000 / 3
    assert made.saves[-1] > 79_488


def test_media_are_never_split_and_their_end_is_saved() -> None:
    made = planned(6000, candidates=(Candidate(200, "system_end"),), forbidden=((300, 4315),))
    assert 4315 in made.saves
    assert not any(300 < offset < 4315 for offset in made.saves)


def test_a_declared_offset_is_saved() -> None:
    assert 7011 in planned(candidates=AGENT, wanted=(7011,)).saves


def test_a_declared_offset_that_is_stored_is_kept() -> None:
    stored = (7011, 9000, 9300, *range(11_300, 26_000, 3000))
    assert 7011 in planned(candidates=AGENT, stored=stored, k=len(stored), wanted=(7011,)).kept


def test_a_save_names_the_message_it_is_before() -> None:
    made = planned(candidates=(Candidate(9000, "system_end", message=1),))
    assert "(before message 1)" in next(step.reason for step in made.steps if step.end == 9000)


def test_the_last_stable_offset_is_saved() -> None:
    stable = (
        Candidate(9000, "system_end", True),
        Candidate(9300, "assistant_start", True),
        Candidate(13_111, "tool_start", True),
        *(Candidate(9300 + 1000 * i, "tool_start", False) for i in range(4, 20)),
        Candidate(29_996, "generation_prompt", False),
    )
    assert 13_111 in planned(candidates=stable).saves


def test_a_dense_memory_saves_nothing_and_keeps_nothing() -> None:
    existing = (Existing(9000, age=1), Existing(9300, age=1))
    request = PlanRequest(30_000, AGENT, common_prefix=9300, existing=existing, memory="dense", budget=Budget(8))
    made = plan(request)
    assert made.saves == made.kept == ()
    assert made.breaks == 0
    assert [eviction.offset for eviction in made.evict] == [9000, 9300]
    assert made.expected_replay_tokens == compare(request, made).optimal_replay_tokens == 0


@given(st.data())
@settings(deadline=None)
def test_expectations_that_do_not_come_true_cost_twice_as_much_at_most(data: st.DataObject) -> None:
    length = data.draw(st.integers(2000, 40_000))
    likely = data.draw(st.lists(st.builds(Likely, st.integers(0, length), st.floats(0, 1)), min_size=1, max_size=12))
    candidates = data.draw(st.sampled_from([(), (Candidate(length // 3, "system_end"),), AGENT]))
    request = PlanRequest(
        length,
        tuple(c for c in candidates if c.offset <= length),
        likely=tuple(likely),
        budget=Budget(data.draw(st.integers(1, 8))),
        block=data.draw(st.sampled_from([1, 64])),
    )
    doubting = situate(replace(request, likely=()), 0)
    told, plain = place_adaptive(situate(request, 0)), place_adaptive(doubting)

    def cost(placement: Placement) -> float:
        # All that the first may keep, since what is likely is a place to save at.
        places = possible_places(situate(request, 0))
        return cost_of(doubting, places, {mark.offset for mark in placement.marks if mark.save})

    assert cost(told) <= 2 * cost(plain) + 1e-9
