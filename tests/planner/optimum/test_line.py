from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.optimum.line import Line, cheapest, cheapest_within, cost_of


@st.composite
def lines(draw: st.DrawFn) -> tuple[Line, list[float]]:
    """Small whole numbers, so that many sets cost the same."""
    n = draw(st.integers(0, 9))
    offsets = sorted(draw(st.sets(st.integers(1, 20), min_size=n, max_size=n)))
    weights = [draw(st.integers(0, 3)) for _ in range(n + 1)]
    masses = [float(sum(weights[: i + 1])) for i in range(n)]
    required = [draw(st.integers(0, 5)) == 0 for _ in range(n)]
    prices = [float(draw(st.sampled_from([0, 0, 0, 1, 5]))) for _ in range(n)]
    return Line([-float(offset) for offset in offsets], masses, required, float(sum(weights)), 1000.0), prices


def least(line: Line, prices: list[float], count: int) -> float | None:
    """The least cost of any allowed set, by trying all of them."""
    n = len(prices)
    costs = [
        cost_of(line, prices, chosen)
        for size in range(min(count, n) + 1)
        for chosen in combinations(range(n), size)
        if all(i in chosen for i in range(n) if line.required[i])
    ]
    return min(costs, default=None)


@settings(max_examples=1500)
@given(lines(), st.integers(0, 9))
def test_no_set_of_so_many_points_is_cheaper(case: tuple[Line, list[float]], count: int) -> None:
    line, prices = case
    best, found = least(line, prices, count), cheapest_within(line, prices, count)
    if best is None:
        assert found is None
        return
    assert found is not None
    assert len(found.points) <= count
    assert list(found.points) == sorted(set(found.points))
    assert all(i in found.points for i, needed in enumerate(line.required) if needed)
    assert found.cost == pytest.approx(best)
    assert cost_of(line, prices, found.points) == pytest.approx(best)


@pytest.mark.parametrize("count", range(1, 60))
def test_sets_between_two_that_cost_the_same_with_a_toll_are_spliced(count: int) -> None:
    # 30 times two divergences right after each other at equal distances: every second toll jumps over many counts.
    offsets = [x for i in range(30) for x in (100 * i + 50, 100 * i + 51)]
    line = Line([-float(x) for x in offsets], [float(i) for i in range(60)], [False] * 60, 60.0, 0.0)
    found = cheapest_within(line, [0.0] * 60, count)
    assert found is not None
    assert len(found.points) == count
    # One more point for each count, by the programme over all counts.
    reach = [[0.0 if i < 0 else float("inf") for i in range(-1, 60)]]
    for _ in range(count):
        row = [float("inf")]
        for j in range(60):
            ways = [
                reach[-1][i + 1]
                + (line.slopes[i] if i >= 0 else 0.0) * (line.masses[j] - (line.masses[i] if i >= 0 else 0.0))
                for i in range(-1, j)
            ]
            row.append(min(ways))
        reach.append(row)
    ends = [reach[count][i + 1] + line.slopes[i] * (line.mass - line.masses[i]) for i in range(60)]
    assert found.cost == pytest.approx(min(ends))


def test_a_toll_is_not_part_of_the_cost() -> None:
    line = Line([-10.0, -20.0], [1.0, 2.0], [False, False], 3.0, 100.0)
    taxed = cheapest(line, [0.0, 0.0], toll=5.0)
    assert taxed.cost == cost_of(line, [0.0, 0.0], taxed.points)
    assert taxed.toll == 5.0
