"""The best set of checkpoints on a line, exactly.

Sparse prefix caching (Shirokikh and Nikolenko, arXiv 2605.05219) places checkpoints so that the expected replay under a
distribution of divergences is least. Here the offsets also have prices (a save and a break cost time, a checkpoint
that exists costs none), sizes under a budget in bytes, and some may be required. `line` has the proof and the
sweeps, `sizes` what is done where sizes differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

from planner.budget import Budget
from planner.optimum.line import Chosen, Line, cheapest_within
from planner.optimum.sizes import cheapest_fitting


class Divergences(Protocol):
    """A distribution over the offsets 0 … length at which the next prompt diverges."""

    length: int

    def below(self, offset: int) -> tuple[float, float]:
        """Probability that the divergence lies below `offset`, and the expectation of its offset there.

        `length + 1` gives all of it: the mass 1 and the mean divergence.
        """
        ...


@final
class Point(NamedTuple):
    """An offset that may be chosen. `price` is in the unit of the objective, `size` in bytes."""

    offset: int
    price: float = 0.0
    size: int = 0
    required: bool = False


def select(
    points: Sequence[Point], prior: Divergences, budget: Budget, *, rate: float = 1.0, per_restore: float = 0.0
) -> tuple[int, ...] | None:
    """The offsets whose prices plus expected replay are least, ascending; None if the budget is less than the required.

    `points` ascend strictly in offset, from above 0. The objective is `rate` for each expected token of replay, plus
    `per_restore` times the probability that a checkpoint is restored. Points that are cheaper to evaluate again than
    to restore are never chosen.
    """
    usable = [point for point in points if per_restore < rate * point.offset]
    mass, moment = prior.below(prior.length + 1)
    line = Line(
        slopes=[per_restore - rate * point.offset for point in usable],
        masses=[prior.below(point.offset)[0] for point in usable],
        required=[point.required for point in usable],
        mass=mass,
        moment=rate * moment,
    )
    chosen = _cheapest(line, usable, budget)
    return None if chosen is None else tuple(usable[i].offset for i in chosen.points)


def _cheapest(line: Line, points: Sequence[Point], budget: Budget) -> Chosen | None:
    prices = [point.price for point in points]
    count = len(points) if budget.checkpoints is None else budget.checkpoints
    if budget.bytes is None:
        return cheapest_within(line, prices, count)
    sizes = [point.size for point in points]
    if len(set(sizes)) == 1 and sizes[0] > 0:
        return cheapest_within(line, prices, min(count, budget.bytes // sizes[0]))
    return cheapest_fitting(line, prices, sizes, count, budget.bytes)
