"""The least that anyone could have evaluated again, who knew all prompts to come, on a memory that keeps branches.

`offline` has the same for a line. A prompt makes a *demand* for a state at the end of what it shares with any earlier
one, unless the tip, the state at the end of the prompt right before it, serves. States are points of a tree of
prefixes; a point is named by the first prompt that had it and its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from typing import NamedTuple, final

from planner.budget import Budget
from planner.optimum.offline import Bounds
from planner.optimum.tree import Node, select_tree

_WINDOW = 8
"""A stretch of prompts whose demands are held against the room at its beginning has at most so many times that room."""


class Point(NamedTuple):
    """The state after `offset` tokens of prompt `owner`, the first that begins with them."""

    offset: int
    owner: int


class Demand(NamedTuple):
    """Prompt `prompt` would best be restored at `point`, and may be at `tip` whatever is stored (0: it may not)."""

    prompt: int
    point: Point
    tip: int


@final
class Prompts:
    """Prompts in the order they came, as a tree.

    `lengths` in tokens; `common(i, j)`: tokens that prompts i and j share, i the later one; `nearest(i)`: which prompt
    before i shares most with it, None for the first. `free(i)`: whether prompt i costs nothing and changes nothing.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        common: Callable[[int, int], int],
        nearest: Callable[[int], int | None],
        free: Callable[[int], bool] = lambda i: False,
    ) -> None:
        self.lengths = lengths
        self._common = common
        self._nearest = [nearest(i) for i in range(len(lengths))]
        self._shared = [0 if j is None else common(i, j) for i, j in enumerate(self._nearest)]
        self.demands = [d for i in range(len(lengths)) if not free(i) and (d := self._demand(i)) is not None]
        repeated = (self._shared[i] == length and not free(i) for i, length in enumerate(lengths))
        self._repeated = [0, *accumulate(repeated)]

    def point(self, prompt: int, offset: int) -> Point:
        """The point after `offset` tokens of a prompt."""
        while (nearest := self._nearest[prompt]) is not None and self._shared[prompt] >= offset:
            prompt = nearest
        return Point(offset, prompt)

    def begins_with(self, prompt: int, point: Point) -> bool:
        """Whether a prompt begins with the tokens of a point."""
        return (
            point.owner <= prompt and point.offset <= self.lengths[prompt] and self.point(prompt, point.offset) == point
        )

    def meet(self, one: Point, other: Point) -> int:
        """How many tokens two points share."""
        late, early = max(one.owner, other.owner), min(one.owner, other.owner)
        least = min(one.offset, other.offset)
        return least if late == early else min(least, self._common(late, early))

    def tip(self, prompt: int) -> int:
        """Where the state at the end of the prompt before lets this one begin, 0 if nowhere."""
        before = self.lengths[prompt - 1] if prompt else 0
        extends = prompt > 0 and before < self.lengths[prompt] and self._common(prompt, prompt - 1) == before
        return before if extends else 0

    def repeated(self, first: int, last: int) -> int:
        """How many of the prompts first … last are wholly shared with earlier ones."""
        return self._repeated[last + 1] - self._repeated[first]

    def _demand(self, prompt: int) -> Demand | None:
        # At least one token is evaluated.
        offset, tip = min(self._shared[prompt], self.lengths[prompt] - 1), self.tip(prompt)
        return Demand(prompt, self.point(prompt, offset), tip) if offset > tip else None


def bounds_in_tree(prompts: Prompts, count: int) -> Bounds:
    """Bounds of the tokens that are evaluated again with `count` checkpoints beside the tip."""
    if len({demand.point for demand in prompts.demands}) <= count:
        return Bounds(0, 0)
    if not count:
        replay = sum(demand.point.offset - demand.tip for demand in prompts.demands)
        return Bounds(replay, replay)
    upper = min(_upper(prompts, count, horizon) for horizon in (count, 2 * count, 4 * count))
    return Bounds(_lower(prompts, count), upper)


def exact_in_tree(prompts: Prompts, count: int) -> int:
    """The optimum itself, by all sets of checkpoints at demanded points and where they meet; for a handful."""
    useful = {demand.point for demand in prompts.demands}
    for one, other in combinations(sorted(useful), 2):
        meeting = prompts.meet(one, other)
        if meeting:
            useful.add(prompts.point(one.owner, meeting))
    demands = {demand.prompt: demand for demand in prompts.demands}
    costs = {frozenset[Point](): 0}
    for i, length in enumerate(prompts.lengths):
        after: dict[frozenset[Point], int] = {}
        for stored, cost in costs.items():
            begin, paid = _served(prompts, i, demands.get(i), stored)
            pool = stored | {p for p in useful if begin < p.offset <= length and prompts.begins_with(i, p)}
            for number in range(min(count, len(pool)) + 1):
                for chosen in map(frozenset, combinations(sorted(pool), number)):
                    after[chosen] = min(cost + paid, after.get(chosen, cost + paid))
        costs = after
    return min(costs.values())


def _served(prompts: Prompts, i: int, demand: Demand | None, stored: Iterable[Point]) -> tuple[int, int]:
    """Where prompt i begins to be evaluated, and the tokens it evaluates again."""
    if demand is None:
        return prompts.tip(i), 0
    on_path = (p.offset for p in stored if p.offset <= demand.point.offset and prompts.begins_with(i, p))
    begin = max(demand.tip, max(on_path, default=0))
    return begin, demand.point.offset - begin


def _upper(prompts: Prompts, count: int, horizon: int) -> int:
    """What it costs to keep, after each prompt, the set that serves the next `horizon` demands best."""
    demands, following = prompts.demands, 0
    stored: set[Point] = set()
    total = 0
    for i, length in enumerate(prompts.lengths):
        here = demands[following] if following < len(demands) and demands[following].prompt == i else None
        following += here is not None
        begin, replay = _served(prompts, i, here, stored)
        total += replay
        pending = demands[following : following + horizon]
        wanted = {d.point for d in pending if begin < d.point.offset <= length and prompts.begins_with(i, d.point)}
        stored |= wanted
        if len(stored) > count:
            stored = _best(prompts, stored, pending, count)
    return total


def _best(prompts: Prompts, pool: Iterable[Point], pending: Sequence[Demand], count: int) -> set[Point]:
    points = sorted(pool)
    chains = [[n for n, p in enumerate(points) if prompts.begins_with(point.owner, p)] for point in points]
    above = [
        max((n for n in chain if points[n].offset < points[own].offset), default=-1) for own, chain in enumerate(chains)
    ]
    masses = [0.0] * len(points)
    for demand in pending:
        offset = demand.point.offset
        serving = [n for n, p in enumerate(points) if p.offset <= offset and prompts.begins_with(demand.prompt, p)]
        if serving:
            masses[serving[-1]] += 1.0
    nodes = [Node(parent, p.offset, mass) for parent, p, mass in zip(above, points, masses, strict=True)]
    return {points[n] for n in select_tree(nodes, Budget(count)) or ()}


def _lower(prompts: Prompts, count: int) -> int:
    """The most that can be proven of any way to spend the room.

    Of the points that stand at some moment and that prompts of a stretch after it demand, no more than `count` are
    stored then. Each stretch of tokens between two neighbouring ones of the tree that these points span is evaluated
    again, unless all that is demanded below it is served from below it. Of stretches of prompts that do not overlap
    the bounds add up; the best such are found by a dynamic programme.
    """
    demands = prompts.demands
    best = [0] * (len(demands) + 1)
    for first, begun in enumerate(demands):
        best[first + 1] = max(best[first + 1], best[first])
        span = _Span(prompts)
        for last in range(first, min(len(demands), first + _WINDOW * count)):
            demand = demands[last]
            # What only later prompts bring costs nothing to save, and the tip may serve a part.
            if demand.point.owner < begun.prompt and not demand.tip:
                span.add(demand.point)
            # The last token of a prompt that is shared as a whole is evaluated by anyone.
            given = prompts.repeated(begun.prompt, demand.prompt)
            best[last + 1] = max(best[last + 1], best[last], best[first] + span.uncovered(count) - given)
    return best[-1]


@final
@dataclass(slots=True)
class _Branch:
    point: Point
    demanded: bool
    below: list[_Branch] = field(default_factory=list)


@final
class _Span:
    """The tree that some points span: they themselves and where they meet."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._root = _Branch(Point(0, 0), demanded=False)
        self._size = 0

    def add(self, point: Point) -> None:
        at = self._root
        while True:
            for place, branch in enumerate(at.below):
                meeting = self._prompts.meet(point, branch.point)
                if meeting <= at.point.offset:
                    continue
                if meeting < branch.point.offset:
                    branch = _Branch(Point(meeting, branch.point.owner), demanded=False, below=[branch])
                    at.below[place] = branch
                at = branch
                break
            else:
                at.below.append(_Branch(point, demanded=True))
                self._size += 1
                return
            if at.point.offset == point.offset:
                self._size += not at.demanded
                at.demanded = True
                return

    def uncovered(self, count: int) -> int:
        """The least total length of the stretches that are evaluated again, whatever `count` points are stored.

        A stretch is spared by a point stored at its lower end, or where nothing is demanded there by those that spare
        all stretches below it, so certainly by the one that spares the shortest: to that point it counts as well.
        """
        if self._size <= count:
            return 0
        total, spared = 0, []
        todo = [(branch, 0, 0) for branch in self._root.below]
        while todo:
            branch, above, more = todo.pop()
            length = branch.point.offset - above
            total += length
            spared.append(length + more)
            if branch.below:
                shortest = min(range(len(branch.below)), key=lambda n: branch.below[n].point.offset)
                passed = 0 if branch.demanded else length + more
                todo += [
                    (each, branch.point.offset, passed if n == shortest else 0) for n, each in enumerate(branch.below)
                ]
        return max(0, total - sum(sorted(spared)[len(spared) - count :]))
