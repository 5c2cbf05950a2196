from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import Budget
from planner.expectation.prior import Atom, Prior
from planner.optimum.selection import Point, select

LENGTH = 60


@st.composite
def priors(draw: st.DrawFn) -> Prior:
    weights = st.integers(0, 5)
    atoms = [Atom(draw(st.integers(0, LENGTH)), float(draw(weights))) for _ in range(draw(st.integers(0, 6)))]
    return Prior(LENGTH, atoms, float(draw(st.integers(1, 5))))


@st.composite
def points(draw: st.DrawFn, sizes: st.SearchStrategy[int]) -> list[Point]:
    offsets = draw(st.sets(st.integers(1, LENGTH), max_size=7))
    prices = st.sampled_from([0.0, 0.0, 0.1, 1.0, 3.0])
    required = st.sampled_from([False, False, False, True])
    return [Point(offset, draw(prices), draw(sizes), draw(required)) for offset in sorted(offsets)]


def cost(chosen: tuple[Point, ...], prior: Prior, rate: float, per_restore: float) -> float:
    offsets = [point.offset for point in chosen]
    restored = 1 - prior.below(offsets[0])[0] if offsets else 0.0
    return rate * prior.replay(offsets) + sum(point.price for point in chosen) + per_restore * restored


def least(available: list[Point], prior: Prior, budget: Budget, rate: float, per_restore: float) -> float | None:
    """The least cost of any allowed set, by trying all of them."""
    costs = [
        cost(chosen, prior, rate, per_restore)
        for count in range(len(available) + 1)
        for chosen in combinations(available, count)
        if (budget.checkpoints is None or count <= budget.checkpoints)
        and (budget.bytes is None or sum(point.size for point in chosen) <= budget.bytes)
        and all(point in chosen for point in available if point.required)
    ]
    return min(costs, default=None)


BUDGETS = st.builds(Budget, st.none() | st.integers(0, 9), st.none() | st.integers(0, 60))


@settings(max_examples=1500)
@given(priors(), points(st.integers(0, 12)), BUDGETS, st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.4, 2.0]))
def test_no_set_within_the_budget_is_better(
    prior: Prior, available: list[Point], budget: Budget, rate: float, per_restore: float
) -> None:
    # A state that is quicker evaluated than restored is never chosen, so it is none to choose from.
    usable = [point for point in available if rate * point.offset > per_restore]
    best = least(usable, prior, budget, rate, per_restore)
    chosen = select(available, prior, budget, rate=rate, per_restore=per_restore)
    if best is None:
        assert chosen is None
        return
    assert chosen is not None
    by_offset = {point.offset: point for point in usable}
    picked = tuple(by_offset[offset] for offset in chosen)
    assert budget.checkpoints is None or len(picked) <= budget.checkpoints
    assert budget.bytes is None or sum(point.size for point in picked) <= budget.bytes
    assert cost(picked, prior, rate, per_restore) == pytest.approx(best)


@settings(max_examples=1000)
@given(priors(), points(st.just(7)), BUDGETS)
def test_no_set_of_equal_sizes_within_the_budget_is_better(
    prior: Prior, available: list[Point], budget: Budget
) -> None:
    best = least(available, prior, budget, 1.0, 0.0)
    chosen = select(available, prior, budget)
    assert (chosen is None) == (best is None)
    if chosen is not None:
        by_offset = {point.offset: point for point in available}
        assert cost(tuple(by_offset[o] for o in chosen), prior, 1.0, 0.0) == pytest.approx(best)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=30), st.integers(0, 10**13))
def test_sizes_that_differ_never_exceed_the_bytes(sizes: list[int], limit: int) -> None:
    prior = Prior(1000, [], 1.0)
    available = [Point((i + 1) * 30, size=size) for i, size in enumerate(sizes)]
    chosen = select(available, prior, Budget(bytes=limit))
    assert chosen is not None
    assert sum(point.size for point in available if point.offset in chosen) <= limit


def test_a_thousand_offsets_are_chosen_from_exactly() -> None:
    prior = Prior(100_000, [Atom(70_000, 1.0)], 1.0)
    available = [Point(offset) for offset in range(100, 100_000, 100)]
    chosen = select(available, prior, Budget(3))
    assert chosen is not None
    assert 70_000 in chosen
    moved = [tuple(sorted({*chosen} - {offset} | {offset + shift})) for offset in chosen for shift in (-100, 100)]
    assert all(prior.replay(chosen) <= prior.replay(other) + 1e-9 for other in moved)
