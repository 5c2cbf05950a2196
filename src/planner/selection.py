"""The best set of checkpoints on a line: an exact dynamic programme.

Sparse prefix caching (Shirokikh and Nikolenko, arXiv 2605.05219) places M checkpoints among N offsets so that the
expected replay under a distribution of divergences is least, in O(N M). Here the offsets also have prices (a save and
a break cost time, a checkpoint that exists costs none), sizes under a budget in bytes, and some may be required.

With prefix sums of the prior's mass W and moment A, the replay of divergences in [a, b) from a checkpoint at a is
A(b) - A(a) - a (W(b) - W(a)). So for the next checkpoint b, each earlier choice a is a line in W(b), with a slope
that falls as a grows, and the least of them is read off a lower envelope in amortised constant time (the convex hull
trick).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from planner.prior import Prior
from planner.request import Budget

_UNITS = 256
"""Where sizes differ, bytes are counted in at most this many parts of the budget, rounded up: never past it, and the
envelopes stay few."""


@final
class Point(NamedTuple):
    """An offset that may be chosen. `price` is in the unit of the objective, `size` in bytes."""

    offset: int
    price: float = 0.0
    size: int = 0
    required: bool = False


def select(
    points: Sequence[Point], prior: Prior, budget: Budget, *, rate: float = 1.0, per_restore: float = 0.0
) -> tuple[int, ...] | None:
    """The offsets whose prices plus expected replay are least, ascending; None if the budget is less than the required.

    `points` ascend strictly in offset, from above 0. The objective is `rate` for each expected token of replay, plus
    `per_restore` times the probability that a checkpoint is restored. Points that are cheaper to evaluate again than
    to restore are never chosen.
    """
    loads, caps = _loads(points, budget)
    nodes: list[tuple[int, int]] = []
    envelopes = {(0, 0): _Envelope()}
    envelopes[0, 0].add(0.0, 0.0, -1)
    for index, point in enumerate(points):
        mass, moment = prior.below(point.offset)
        slope = per_restore - rate * point.offset
        if slope >= 0:
            continue
        reached: list[tuple[tuple[int, int], float, int]] = []
        for level, envelope in envelopes.items():
            beyond = (level[0] + loads[index][0], level[1] + loads[index][1])
            if beyond[0] <= caps[0] and beyond[1] <= caps[1]:
                cost, node = envelope.least(mass)
                reached.append((beyond, cost + rate * moment + point.price, node))
        if point.required:
            # No later choice may follow an earlier one than this.
            envelopes = {}
        for level, cost, node in reached:
            nodes.append((index, node))
            line = cost - rate * moment - slope * mass
            envelopes.setdefault(level, _Envelope()).add(slope, line, len(nodes) - 1)
    mass, _ = prior.below(prior.length + 1)
    ends = [(*envelope.least(mass), level) for level, envelope in envelopes.items()]
    if not ends:
        return None
    _, _, node = min((cost, level, node) for cost, node, level in ends)
    chosen: list[int] = []
    while node >= 0:
        index, node = nodes[node]
        chosen.append(points[index].offset)
    return tuple(reversed(chosen))


def _loads(points: Sequence[Point], budget: Budget) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """What each point uses of the two budgets, and the budgets, in the coarsest units that lose nothing."""
    count = len(points) if budget.checkpoints is None else min(budget.checkpoints, len(points))
    sizes = {point.size for point in points}
    if budget.bytes is None or sum(point.size for point in points) <= budget.bytes:
        limited = count < len(points)
        return [(int(limited), 0)] * len(points), (count, 0)
    if len(sizes) == 1:
        return [(1, 0)] * len(points), (min(count, budget.bytes // sizes.pop()), 0)
    unit = max(1, -(-budget.bytes // _UNITS))
    counted = int(count < len(points))
    return [(counted, -(-point.size // unit)) for point in points], (count, budget.bytes // unit)


@final
class _Envelope:
    """The least of lines, added with strictly falling slopes and asked at arguments that never fall."""

    __slots__ = ("_first", "_lines")

    def __init__(self) -> None:
        self._lines: list[tuple[float, float, int]] = []
        self._first = 0

    def add(self, slope: float, intercept: float, node: int) -> None:
        """Add the line `slope` · x + `intercept`, which stands for `node`."""
        lines = self._lines
        while len(lines) - self._first >= 2:
            (m1, c1, _), (m2, c2, _) = lines[-2], lines[-1]
            if (intercept - c1) * (m1 - m2) > (c2 - c1) * (m1 - slope):
                break
            lines.pop()
        lines.append((slope, intercept, node))

    def least(self, x: float) -> tuple[float, int]:
        """The least value at `x` and the node of the line that has it."""
        lines = self._lines
        slope, intercept, node = lines[self._first]
        value = slope * x + intercept
        while self._first + 1 < len(lines):
            slope, intercept, following = lines[self._first + 1]
            if slope * x + intercept >= value:
                break
            value, node = slope * x + intercept, following
            self._first += 1
        return value, node
