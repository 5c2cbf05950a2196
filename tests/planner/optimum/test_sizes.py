from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.optimum import sizes as sizes_module
from planner.optimum.line import Line, cost_of
from planner.optimum.sizes import cheapest_fitting


def random_line(pick: random.Random, count: int) -> tuple[Line, list[float]]:
    offsets = sorted(pick.sample(range(1, 50 * count), count))
    weights = [pick.random() for _ in range(count + 1)]
    masses = [sum(weights[: i + 1]) for i in range(count)]
    line = Line([-float(x) for x in offsets], masses, [False] * count, sum(weights), 25.0 * count * sum(weights))
    return line, [pick.choice([0.0, 0.0, 20.0]) for _ in range(count)]


def least(line: Line, prices: list[float], sizes: list[int], count: int, limit: int) -> float:
    return min(
        cost_of(line, prices, chosen)
        for number in range(min(count, len(sizes)) + 1)
        for chosen in combinations(range(len(sizes)), number)
        if sum(sizes[i] for i in chosen) <= limit
    )


@settings(max_examples=1000)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(0, 8), st.sampled_from([1, 7, 10**9]))
def test_no_set_that_fits_is_cheaper(seed: int, number: int, count: int, unit: int) -> None:
    pick = random.Random(seed)
    line, prices = random_line(pick, number)
    # Sizes as a function of length, of which a few are old and differ.
    sizes = [pick.choice([unit * 20 - round(slope) * unit // 10, unit * pick.randint(1, 60)]) for slope in line.slopes]
    limit = pick.randint(0, sum(sizes))
    found = cheapest_fitting(line, prices, sizes, count, limit)
    assert found is not None
    assert len(found.points) <= count
    assert sum(sizes[i] for i in found.points) <= limit
    assert cost_of(line, prices, found.points) == pytest.approx(least(line, prices, sizes, count, limit))


def test_where_the_search_is_given_up_the_set_fits_and_is_next_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    pick = random.Random(1)
    line, prices = random_line(pick, 60)
    sizes = [1000 + round(-slope) + pick.randint(0, 300) for slope in line.slopes]
    limit = 15_000
    exact = cheapest_fitting(line, prices, sizes, 60, limit)
    monkeypatch.setattr(sizes_module, "_MOST_STEPS", 10)
    rounded = cheapest_fitting(line, prices, sizes, 60, limit)
    assert exact is not None
    assert rounded is not None
    assert sum(sizes[i] for i in rounded.points) <= limit
    assert exact.cost <= rounded.cost <= 1.05 * exact.cost


def test_required_points_that_do_not_fit_leave_no_set() -> None:
    line = Line([-10.0, -20.0], [1.0, 2.0], [True, True], 3.0, 100.0)
    assert cheapest_fitting(line, [0.0, 0.0], [3, 5], 2, 7) is None
