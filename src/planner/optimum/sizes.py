"""Cheapest sets of checkpoints on a line whose sizes differ, under a budget in bytes.

Sizes make it a knapsack, so no toll on bytes finds the optimum for sure; but the best toll bounds it from below, and
what cannot be part of anything better than the best set met so far is left out. What remains is searched exactly: one
lower envelope for each sum of sizes that is reached. Where that would be too much work, as among hundreds of points for
dozens of places, sizes are rounded up, never past the budget, and the better of that set and the best one met is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from planner.optimum.line import Chosen, Line, cheapest_within, cost_of, sweep

_MOST_STEPS = 100_000
"""Steps of the exact search, about a microsecond each, before it gives way to rounded sizes."""

_UNITS = 256
"""Parts of the budget that rounded sizes are counted in."""


@final
class Tolls(NamedTuple):
    """A price for each point and each byte beside the points' own prices, and the cheapest fitting set met with it."""

    point: float
    byte: float
    best: Chosen


def cheapest_fitting(
    line: Line, prices: Sequence[float], sizes: Sequence[int], count: int, limit: int
) -> Chosen | None:
    """The cheapest set of at most `count` points and `limit` bytes; None if what is required is more."""
    free = cheapest_within(line, prices, count)
    if free is None or _size(sizes, free.points) <= limit:
        return free
    required = tuple(i for i, needed in enumerate(line.required) if needed)
    if _size(sizes, required) > limit:
        return None
    tolls = _best_tolls(line, prices, sizes, count, limit, Chosen(required, cost_of(line, prices, required)), free)
    search = _Search(line, prices, sizes, count, limit, tolls)
    found = search.run([*sizes])
    if found is None:
        unit = -(-limit // _UNITS)
        found = search.run([-(-size // unit) * unit for size in sizes], steps=None)
    return min(found or tolls.best, tolls.best, key=lambda chosen: chosen.cost)


def _size(sizes: Sequence[int], points: Sequence[int]) -> int:
    return sum(sizes[i] for i in points)


def _best_tolls(
    line: Line, prices: Sequence[float], sizes: Sequence[int], count: int, limit: int, fitting: Chosen, over: Chosen
) -> Tolls:
    """The tolls of the chord between a set that fits and one that is too large, with no set below that chord."""
    best = fitting
    while True:
        small, large = _size(sizes, fitting.points), _size(sizes, over.points)
        byte = max(0.0, (fitting.cost - over.cost) / (large - small))
        taxed = [price + byte * size for price, size in zip(prices, sizes, strict=True)]
        met = cheapest_within(line, taxed, count)
        assert met is not None
        found = met._replace(cost=cost_of(line, prices, met.points))
        size = _size(sizes, found.points)
        if size <= limit and found.cost < best.cost:
            best = found
        if small < size <= limit:
            fitting = found
        elif limit < size < large:
            over = found
        else:
            return Tolls(met.toll, byte, best)


@final
class _Search:
    """All sets of the points that the tolls leave, by the number and the bytes of what they hold."""

    def __init__(
        self, line: Line, prices: Sequence[float], sizes: Sequence[int], count: int, limit: int, tolls: Tolls
    ) -> None:
        self._line, self._prices, self._count, self._limit, self._tolls = line, prices, count, limit, tolls
        taxed = [p + tolls.point + tolls.byte * size for p, size in zip(prices, sizes, strict=True)]
        ahead = sweep(line, taxed).savings
        back = sweep(_mirrored(line), taxed[::-1]).savings[::-1]
        # What the way from each point to the end costs at least, its own price and tolls left out.
        self._rest = [
            value - slope * (mass - line.mass) - price
            for value, slope, mass, price in zip(back, line.slopes, line.masses, taxed, strict=True)
        ]
        # At least so much does every set cost that holds the point, tolls for what it leaves unused given back.
        self._rebate = tolls.point * count + tolls.byte * limit
        self._ceiling = tolls.best.cost - line.moment
        self._left = [
            i
            for i, (way, rest) in enumerate(zip(ahead, self._rest, strict=True))
            if line.required[i] or (sizes[i] <= limit and way + rest - self._rebate < self._ceiling)
        ]

    def run(self, sizes: Sequence[int], steps: int | None = _MOST_STEPS) -> Chosen | None:
        """The cheapest set that beats the best one met with tolls; that one if none does, None after `steps`."""
        line, tolls = self._line, self._tolls
        nodes: list[tuple[int, int]] = []
        start = Envelope()
        start.add(0.0, 0.0, -1)
        envelopes: dict[tuple[int, int], Envelope] = {(0, 0): start}
        taken = 0
        for i in self._left:
            slope, mass = line.slopes[i], line.masses[i]
            reached: list[tuple[tuple[int, int], float, int]] = []
            taken += len(envelopes)
            if steps is not None and taken > steps:
                return None
            for (number, size), envelope in envelopes.items():
                level = (number + 1, size + sizes[i])
                if level[0] > self._count or level[1] > self._limit:
                    continue
                value, node = envelope.least(mass)
                value += self._prices[i]
                unused = tolls.point * (self._count - level[0]) + tolls.byte * (self._limit - level[1])
                if line.required[i] or value + self._rest[i] - unused < self._ceiling:
                    reached.append((level, value, node))
            if line.required[i]:
                # No later choice may follow an earlier one than this.
                envelopes = {}
            for level, value, node in reached:
                nodes.append((i, node))
                envelopes.setdefault(level, Envelope()).add(slope, value - slope * mass, len(nodes) - 1)
        ends = [envelope.least(line.mass) for envelope in envelopes.values()]
        if not ends:
            return tolls.best
        cost, node = min(ends)
        chosen: list[int] = []
        while node >= 0:
            i, node = nodes[node]
            chosen.append(i)
        return Chosen(tuple(reversed(chosen)), cost + line.moment)


def _mirrored(line: Line) -> Line:
    """The line from its end to its start: a sweep of it gives the ways from each point to the end.

    An edge from a to b costs slope(a) (W(b) - W(a)), in which the slopes may as well be the positions and the masses
    what falls along them.
    """
    masses = [mass - line.mass for mass in reversed(line.masses)]
    return Line(masses, [*reversed(line.slopes)], [*reversed(line.required)], 0.0, line.moment)


@final
class Envelope:
    """The least of lines, added with falling slopes and asked at arguments that never fall."""

    __slots__ = ("_first", "_lines")

    def __init__(self) -> None:
        self._lines: list[tuple[float, float, int]] = []
        self._first = 0

    def add(self, slope: float, height: float, node: int) -> None:
        """Add the line `slope` · x + `height`, which stands for `node`."""
        lines = self._lines
        while len(lines) - self._first >= 2:
            (slope1, height1, _), (slope2, height2, _) = lines[-2], lines[-1]
            if (height - height1) * (slope1 - slope2) > (height2 - height1) * (slope1 - slope):
                break
            lines.pop()
        lines.append((slope, height, node))

    def least(self, x: float) -> tuple[float, int]:
        """The least value at `x` and the node of the line that has it."""
        lines = self._lines
        slope, height, node = lines[self._first]
        value = slope * x + height
        while self._first + 1 < len(lines):
            slope, height, following = lines[self._first + 1]
            if slope * x + height >= value:
                break
            value, node = slope * x + height, following
            self._first += 1
        return value, node
