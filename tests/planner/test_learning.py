from __future__ import annotations

from dataclasses import replace

import pytest

from planner import Budget, Candidate, Existing, PlanRequest
from planner.learning import Divergence, Planner

PROMPT = PlanRequest(60_000, (Candidate(14_910, "system_end"),), budget=Budget(4))


def test_a_place_inside_the_system_text_is_saved_once_prompts_parted_there() -> None:
    planner = Planner()
    assert 14_115 not in planner.plan(PROMPT).saves
    planner.observe(Divergence(14_115, 50_000))
    made = planner.plan(PROMPT)
    assert 14_115 in made.saves
    assert "learned split" in next(step.reason for step in made.steps if step.end == 14_115)


def test_other_sessions_do_not_expect_what_one_has_done() -> None:
    planner = Planner()
    planner.observe(Divergence(14_115, 50_000, session="a"))
    assert planner.expect("a")
    assert not planner.expect("b")


def test_sessions_with_the_same_tools_learn_from_each_other() -> None:
    planner = Planner()
    planner.observe(Divergence(14_115, 50_000, session="a", tools="x"))
    assert [likely.offset for likely in planner.expect("b", tools="x")] == [14_115]
    assert not planner.expect("b", tools="y")


def test_a_place_inside_the_tools_is_expected_everywhere_once_it_was_met_twice() -> None:
    planner = Planner()
    planner.observe(Divergence(700, 50_000, session="a", tools="x", static=9000))
    assert not planner.expect("b", tools="y", static=9000)
    planner.observe(Divergence(700, 50_000, session="c", tools="z", static=9000))
    assert [likely.offset for likely in planner.expect("b", tools="y", static=9000)] == [700]
    assert not planner.expect("b", tools="y", static=600)


def test_where_tools_and_system_text_end_is_told_by_the_candidates() -> None:
    candidates = [Candidate(800, "tools_end"), Candidate(900, "system_end"), Candidate(950, "user_start")]
    assert Divergence.of(700, 1000, candidates, tools="x") == Divergence(700, 1000, "", "x", 800, 900)
    assert Divergence.of(700, 1000, candidates[:1]) == Divergence(700, 1000, static=800, system=800)
    assert Divergence.of(700, 1000, ()) == Divergence(700, 1000)


def test_what_was_met_more_often_is_expected_more() -> None:
    planner = Planner()
    for offset in (100, 200, 200):
        planner.observe(Divergence(offset, 50_000, tools="x"))
    once, twice = planner.expect(tools="x")
    assert twice.weight > once.weight


@pytest.mark.parametrize("offset", [0, 49_000])
def test_a_new_conversation_and_a_rewritten_end_teach_no_place(offset: int) -> None:
    planner = Planner()
    planner.observe(Divergence(offset, 50_000))
    assert not planner.expect()


def test_places_past_the_prompt_are_left_out() -> None:
    planner = Planner()
    planner.observe(Divergence(70_000, 90_000))
    assert planner.plan(PROMPT).saves == Planner().plan(PROMPT).saves


def test_what_is_remembered_is_bounded() -> None:
    planner = Planner()
    for i in range(3000):
        planner.observe(Divergence(i + 1, 50_000, session=str(i), tools="x"))
    assert len(planner.expect(tools="x")) <= 16
    assert not planner.expect("0")
    assert planner.expect("2999")


def test_what_parts_twice_at_about_the_same_distance_from_the_end_is_expected_to_do_so_again() -> None:
    planner = Planner()
    planner.observe(Divergence(19_100, 20_000))
    once = planner.plan(PROMPT).saves
    planner.observe(Divergence(20_100, 21_000))
    assert 60_000 - 900 in planner.plan(PROMPT).saves
    assert 60_000 - 900 not in once
    planner.observe(Divergence(2000, 22_000))
    assert 60_000 - 900 not in planner.plan(PROMPT).saves


def test_a_place_inside_the_system_text_is_learned_from_a_short_conversation_too() -> None:
    planner = Planner()
    planner.observe(Divergence(14_115, 15_000, system=14_910))
    assert [likely.offset for likely in planner.expect()] == [14_115]


def test_that_conversations_begin_anew_is_expected_as_often_as_they_lately_did() -> None:
    planner = Planner()
    request = replace(PROMPT, candidates=(Candidate(1000, "system_end"),))

    def weight() -> float:
        likely = planner.expecting(request).likely
        return sum(expected.weight for expected in likely if expected.offset == 1000)

    def next_prompt(*, anew: bool) -> float:
        if anew:
            planner.observe(Divergence(1004, 1500, system=1000))
        planner.plan(request)
        return weight()

    assert next_prompt(anew=False) == 0
    rising = [next_prompt(anew=True) for _ in range(12)]
    assert rising == sorted(rising)
    assert 0.9 < rising[-1] < 1
    falling = [next_prompt(anew=False) for _ in range(12)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] < 0.05
    assert not planner.expecting(request, session="another").likely


def test_a_system_text_under_which_all_begins_anew_is_kept_beside_whatever_was_left() -> None:
    def kept(planner: Planner) -> bool:
        """Whether its state outlives that of the last of the conversations that were left, where one must go."""
        states = [Existing(1000, 100, 0, "system", 1000, returns=0.1)]
        states += [Existing(1600, 100, i + 1, f"left {i}", 1004, i, returns=1.0) for i in range(3)]
        candidates = (
            Candidate(1000, "system_end"),
            Candidate(1000, "user_start"),
            Candidate(1600, "generation_prompt"),
        )
        request = PlanRequest(
            1604, candidates, common_prefix=1004, existing=tuple(states), budget=Budget(checkpoints=4)
        )
        return 1000 in planner.plan(request).kept

    planner = Planner()
    assert not kept(planner)
    for _ in range(6):
        planner.observe(Divergence(1004, 1604, system=1000))
        planner.plan(PROMPT)
    assert kept(planner)
