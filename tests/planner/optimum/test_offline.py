from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.optimum.offline import Bounds, Visit, bounds, exact


@st.composite
def visits(draw: st.DrawFn) -> list[Visit]:
    found: list[Visit] = []
    before = 0
    for _ in range(draw(st.integers(1, 7))):
        shared = draw(st.sampled_from([before, draw(st.integers(0, before))]))
        length = shared + draw(st.sampled_from([0, draw(st.integers(0, 20))]) if shared else st.integers(1, 20))
        found.append(Visit(length, shared))
        before = length
    return found


@settings(max_examples=1000)
@given(visits(), st.integers(0, 3))
def test_the_optimum_lies_between_the_bounds(session: list[Visit], count: int) -> None:
    lower, upper = bounds(session, count)
    assert lower <= exact(session, count) <= upper


@settings(max_examples=300)
@given(visits())
def test_with_room_for_every_demand_nothing_is_evaluated_again(session: list[Visit]) -> None:
    assert bounds(session, len(session)) == Bounds(0, 0)


def test_one_place_for_two_demands_costs_the_shorter_stretch() -> None:
    # The third prompt parts at 900, the fourth at 800: with one state the way from 800 to 900 is gone once, at best.
    session = [Visit(1000, 0), Visit(1100, 1000), Visit(1000, 900), Visit(1000, 800)]
    assert exact(session, 1) == 100
    assert bounds(session, 1) == Bounds(100, 100)
    assert bounds(session, 2) == Bounds(0, 0)


def test_without_any_state_every_demand_is_evaluated_from_the_start() -> None:
    session = [Visit(1000, 0), Visit(1000, 900), Visit(1000, 800)]
    assert exact(session, 0) == 1700
    assert bounds(session, 0).upper == 1700


def test_a_prompt_that_goes_on_from_the_tip_demands_nothing() -> None:
    session = [Visit(1000 + 100 * i, 1000 + 100 * (i - 1) if i else 0) for i in range(20)]
    assert bounds(session, 0) == Bounds(0, 0)
    assert exact(session, 0) == 0


def test_the_last_token_of_a_repeated_prompt_is_evaluated_by_anyone() -> None:
    # Passing it on the way to a demand right after it costs nothing.
    session = [Visit(5, 0), Visit(5, 5), Visit(8, 5), Visit(6, 6)]
    assert exact(session, 1) == 0
    assert bounds(session, 1) == Bounds(0, 0)
