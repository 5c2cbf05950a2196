"""Cheapest sets of checkpoints on a line, for given prices: the sweep that `selection` is built on.

A checkpoint at a serves the divergences in [a, b) up to the next one at b. With prefix sums of the prior's mass W and
moment A that replay is A(b) - A(a) - a (W(b) - W(a)). So a set of checkpoints is a path from the start to the end whose
edges cost f(a) + g(b) - a W(b), and A itself counts at the end only. Two facts follow and everything rests on them:

- For the next checkpoint b each earlier choice a is a line in W(b) whose slope falls as a grows, and the least of
  them is read off a lower envelope in amortised constant time (the convex hull trick): O(N) for a whole path.
- W never falls, so edge costs satisfy the quadrangle inequality (a <= a' <= b <= b' gives c(a, b) + c(a', b') <=
  c(a, b') + c(a', b)). Then the least cost of paths with exactly m points is convex in m, and of two cheapest paths
  with fewer and with more than m points one with exactly m can be spliced (Aggarwal, Schieber and Tokuyama, Finding a
  minimum-weight k-link path in graphs with the concave Monge property, 1994). So a limit on the number of points is
  met by a toll on each of them, and the right toll is found in a few sweeps, whatever the limit M; the programme over
  all numbers of points (Shirokikh and Nikolenko, arXiv 2605.05219) takes O(N M).

Points that are required divide the line: an edge across one is as good as infinite, which the inequality survives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final


@final
class Line(NamedTuple):
    """The points that may be chosen, ascending in offset, as parallel sequences.

    slopes: what a divergence costs more if it is served from here instead of from the start; at most 0, never rising.
    masses: of the divergences below each point. required: which points every set must hold. mass: of all divergences;
    moment: what they cost served from the start.
    """

    slopes: Sequence[float]
    masses: Sequence[float]
    required: Sequence[bool]
    mass: float
    moment: float


@final
class Chosen(NamedTuple):
    """Indices of a set of points, ascending, what it costs, and the toll on each point that makes it the cheapest.

    The cost leaves the toll out.
    """

    points: tuple[int, ...]
    cost: float
    toll: float = 0.0


@final
class Sweep(NamedTuple):
    """The cheapest ways to each point and to the end, and the point before each of them on the way (-1: none).

    savings: what a set that ends at a point costs up to there beyond serving all from the start; mostly below 0.
    """

    savings: list[float]
    before: list[int]
    cost: float
    last: int

    def points(self) -> tuple[int, ...]:
        """The cheapest path's points, ascending."""
        found = []
        at = self.last
        while at >= 0:
            found.append(at)
            at = self.before[at]
        return tuple(reversed(found))


def sweep(line: Line, prices: Sequence[float]) -> Sweep:
    """The cheapest path if point i costs `prices[i]`; O(N)."""
    savings: list[float] = []
    before: list[int] = []
    # Three parallel lists instead of a class: this loop is what planning spends its time in.
    slopes, heights, nodes, first = [0.0], [0.0], [-1], 0
    rows = zip(line.slopes, line.masses, prices, line.required, strict=True)
    for index, (slope, mass, price, required) in enumerate(rows):
        value = slopes[first] * mass + heights[first]
        while first + 1 < len(slopes):
            other = slopes[first + 1] * mass + heights[first + 1]
            if other >= value:
                break
            value = other
            first += 1
        value += price
        savings.append(value)
        before.append(nodes[first])
        if required:
            slopes, heights, nodes, first = [], [], [], 0
        height = value - slope * mass
        while len(slopes) - first >= 2:
            slope1, height1, slope2, height2 = slopes[-2], heights[-2], slopes[-1], heights[-1]
            if (height - height1) * (slope1 - slope2) > (height2 - height1) * (slope1 - slope):
                break
            slopes.pop()
            heights.pop()
            nodes.pop()
        slopes.append(slope)
        heights.append(height)
        nodes.append(index)
    values = [slope * line.mass + height for slope, height in zip(slopes[first:], heights[first:], strict=True)]
    least = min(values)
    return Sweep(savings, before, least + line.moment, nodes[first + values.index(least)])


def cheapest(line: Line, prices: Sequence[float], toll: float = 0.0) -> Chosen:
    """The cheapest set if each point costs `toll` beside its price."""
    found = sweep(line, [price + toll for price in prices] if toll else prices)
    points = found.points()
    return Chosen(points, found.cost - toll * len(points), toll)


def cheapest_within(line: Line, prices: Sequence[float], count: int) -> Chosen | None:
    """The cheapest set of at most `count` points; None if more are required.

    `prices` are not negative.
    """
    more = cheapest(line, prices)
    if len(more.points) <= count:
        return more
    required = tuple(i for i, needed in enumerate(line.required) if needed)
    if len(required) >= count:
        return None if len(required) > count else Chosen(required, cost_of(line, prices, required))
    fewer = Chosen(required, cost_of(line, prices, required))
    guess: float | None = None
    while True:
        chord = (fewer.cost - more.cost) / (len(more.points) - len(fewer.points))
        toll = chord if guess is None else guess
        found = cheapest(line, prices, toll)
        n = len(found.points)
        if n == count:
            return found
        if len(fewer.points) < n < count:
            fewer = found
        elif count < n < len(more.points):
            more = found
        elif guess is None:
            # Nothing lies below the chord: both ends of it are cheapest at this toll, and so is what lies between.
            return _spliced(line, prices, fewer, more, count)._replace(toll=toll)
        else:
            guess = None
            continue
        # Where the divergences are spread evenly the right toll is as the inverse square of the number of points.
        guess = toll * (n / count) ** 2


def cost_of(line: Line, prices: Sequence[float], points: Sequence[int]) -> float:
    """What a set of points, ascending, costs."""
    total = line.moment
    slope = mass = 0.0
    for i in points:
        total += slope * (line.masses[i] - mass) + prices[i]
        slope, mass = line.slopes[i], line.masses[i]
    return total + slope * (line.mass - mass)


def _spliced(line: Line, prices: Sequence[float], fewer: Chosen, more: Chosen, count: int) -> Chosen:
    """Exactly `count` points: first those of `more`, then those of `fewer`.

    Some edge of the shorter path holds the edge of the longer one that stands `count` - len(fewer) further on in it;
    there the two change over, which costs nothing as the quadrangle inequality says.
    """
    end = len(line.slopes)
    short, long = (-1, *fewer.points, end), (-1, *more.points, end)
    ahead = count - len(fewer.points)
    i = next(i for i in range(len(short)) if long[i + ahead + 1] < short[i + 1])
    points = (*long[1 : i + ahead + 1], *short[i + 1 : -1])
    return Chosen(points, cost_of(line, prices, points))
