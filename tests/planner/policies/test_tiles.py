from __future__ import annotations

from itertools import pairwise

import planner
from planner import Budget, Candidate, PlanRequest
from planner.policies.tiles import TILE, on_tiles


def always(places: object, index: int, target: int) -> bool:
    return True


def never(places: object, index: int, target: int) -> bool:
    return False


def chat(user: int, *, last: int, turns: int = 40, system: int = 1113, **more: object) -> PlanRequest:
    """A conversation of `turns` turns of 400 tokens, the last message of `last`, and a generation prompt of 5."""
    offset, candidates = system, [Candidate(system, "system_end")]
    for turn in range(turns):
        candidates.append(Candidate(offset + user, "assistant_start", message=2 * turn + 2))
        offset += 400
        candidates.append(Candidate(offset, "user_start", message=2 * turn + 3))
    candidates.append(Candidate(offset + last, "generation_prompt"))
    return PlanRequest(offset + last + 5, tuple(candidates), budget=Budget(8), **more)  # type: ignore[arg-type]


def test_a_step_is_whole_tiles_unless_its_end_is_exact() -> None:
    assert on_tiles(10, [100, 500, 777, 1000], 2000, {500}, always) == [74, 500, 756, 948]


def test_a_short_step_before_the_last_becomes_a_tile() -> None:
    assert on_tiles(0, [975, 995], 1000, {975, 995}, always) == [995 - TILE, 995]
    assert on_tiles(0, [935, 995], 1000, {935, 995}, always) == [935, 995], "60 tokens are hardly less than a tile"


def test_a_short_step_at_the_end_stays() -> None:
    assert on_tiles(0, [995, 1000], 1000, {995, 1000}, always) == [995, 1000]


def test_nothing_moves_to_where_evaluation_begins_or_past_another() -> None:
    assert on_tiles(950, [960, 995], 1000, {995}, always) == [960, 995]
    assert on_tiles(0, [930, 975, 995], 1000, {930, 975, 995}, always) == [911, 975, 995]


def test_a_state_near_the_one_before_does_not_go_nearer() -> None:
    assert on_tiles(0, [615, 975, 995], 1000, {615, 975, 995}, always) == [615, 931, 995]
    assert on_tiles(0, [635, 975, 995], 1000, {635, 975, 995}, always) == [635, 975, 995]


def test_nothing_moves_that_must_not() -> None:
    assert on_tiles(0, [100, 975, 995], 1000, set(), never) == [100, 975, 995]


def test_a_long_cold_prompt_is_broken_where_tiles_end() -> None:
    request = chat(100, last=20)
    plan = planner.plan(request)
    assert len(plan.saves) == 8
    *steps, before_answer, _ = [step.end - step.begin for step in plan.steps][1:]
    assert plan.steps[0].end == 1113, "a pin stays"
    # The step to the save that moves for the answer's is what is left.
    assert all(step % TILE == 0 for step in steps[:-1])
    assert before_answer == TILE
    moved = next(step for step in plan.steps if step.end == request.prompt_tokens - 5 - TILE)
    assert moved.kind == "stride"
    assert "edited or sent again (before message 81); 44 tokens early" in moved.reason


def test_what_a_client_named_stays() -> None:
    request = chat(100, last=20, wanted=(9_001, 17_113))
    plan = planner.plan(request)
    assert {9_001, 17_113} <= set(plan.saves)
    assert all(b - a > 0 for a, b in pairwise((0, *plan.saves)))


def test_where_other_conversations_begin_stays() -> None:
    request = PlanRequest(1145, (Candidate(1113, "system_end"), Candidate(1140, "generation_prompt")))
    plan = planner.plan(request)
    assert 1113 in plan.saves
    assert not any("early" in step.reason for step in plan.steps)


def test_blocks_stay_whole() -> None:
    request = chat(112, last=32, system=1120, block=16)
    assert all(save % 16 == 0 or save == request.prompt_tokens for save in planner.plan(request).saves)
    assert not any("early" in step.reason for step in planner.plan(request).steps)
