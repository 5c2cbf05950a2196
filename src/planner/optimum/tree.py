"""The best set of checkpoints in a tree of prompts that share prefixes, exactly.

On a line the cost of the best m checkpoints is convex in m. In a tree it is not: one checkpoint where three branches
part may do the work of three, and two be hardly better than one. So a toll on each point and byte gives a bound here
and a good set, mostly the best; where it may not be, `tree_search` searches what the bound leaves.

For given prices the cheapest set is found in one sweep up the tree. Let s be the slope of the nearest checkpoint above
a node: what a divergence costs more if it is served from there instead of from the start, at most 0. What everything
at and below the node costs is a concave function of s that rises and then stays level, at what it costs with a
checkpoint at the node itself: no checkpoint above helps any more. Such functions add up over children, and only their
bends are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import merge
from typing import NamedTuple, final

from planner.budget import Budget
from planner.optimum.tree_search import Set, Tolls, Tree, search, set_of, taxed

_NOISE = 1e-9
"""A bound may differ from the cost of the set that has it by so much of it, by rounding alone."""


@final
class Node(NamedTuple):
    """A place in the tree where a state is or may be kept.

    parent: index of the nearest node above, smaller than its own; -1 if there is none. offset: tokens before it.
    mass: probability that the next prompt parts from the tree below this node and above (or beside) all nodes below
    it. price: in the unit of the objective; size: bytes. required: whether every set must hold it.
    """

    parent: int
    offset: int
    mass: float = 0.0
    price: float = 0.0
    size: int = 0
    required: bool = False


def select_tree(
    nodes: Sequence[Node], budget: Budget, *, rate: float = 1.0, per_restore: float = 0.0
) -> tuple[int, ...] | None:
    """Indices of the nodes whose prices plus expected replay are least, ascending; None if the required do not fit.

    The objective is that of `selection.select`: `rate` for each expected token of replay, from the nearest chosen node
    above, or else from the start, plus `per_restore` times the probability that a checkpoint is restored.
    """
    usable = [i for i, node in enumerate(nodes) if per_restore < rate * node.offset]
    tree = _contracted(nodes, usable, rate, per_restore)
    count = len(usable) if budget.checkpoints is None else budget.checkpoints
    limit = sum(tree.sizes) if budget.bytes is None else budget.bytes
    least = set_of(tree, [i for i, needed in enumerate(tree.required) if needed])
    if len(least.nodes) > count or least.size > limit:
        return None
    best, tolls = _with_tolls(tree, least, count, limit)
    bound = _Sweep(tree, tolls).cost - tolls.point * count - tolls.byte * limit
    if bound < best.cost - _NOISE * abs(best.cost):
        best = search(tree, best, tolls, count, limit)
    return tuple(usable[i] for i in best.nodes)


def _contracted(nodes: Sequence[Node], kept: Sequence[int], rate: float, per_restore: float) -> Tree:
    """The tree of the nodes `kept` (ascending); what the others stood for moves up, where it would be served from."""
    place = {name: i for i, name in enumerate(kept)}
    nearest: list[int] = []
    tree = Tree([], [], [], [], [], [])
    for name, node in enumerate(nodes):
        parent = nearest[node.parent] if node.parent >= 0 else -1
        if name not in place:
            nearest.append(parent)
            if parent >= 0:
                tree.masses[parent] += node.mass
            continue
        nearest.append(place[name])
        tree.parents.append(parent)
        tree.slopes.append(per_restore - rate * node.offset)
        tree.masses.append(node.mass)
        tree.prices.append(node.price)
        tree.sizes.append(node.size)
        tree.required.append(node.required)
    return tree


def _with_tolls(tree: Tree, least: Set, count: int, limit: int) -> tuple[Set, Tolls]:
    """The best fitting set met on the way to the tolls at which no set lies below the chord of two."""
    best, point = _limited(tree, least, count, 0.0)
    if best.size <= limit:
        return best, Tolls(point, 0.0)
    fitting, over, best = least, best, least
    while True:
        byte = max(0.0, (fitting.cost - over.cost) / (over.size - fitting.size))
        found, point = _limited(tree, least, count, byte)
        if found.size <= limit and found.cost < best.cost:
            best = found
        if fitting.size < found.size <= limit:
            fitting = found
        elif limit < found.size < over.size:
            over = found
        else:
            return best, Tolls(point, byte)


def _limited(tree: Tree, least: Set, count: int, byte: float) -> tuple[Set, float]:
    """The same for the number of points, where each byte has a toll."""
    fewer, more = least, _Sweep(tree, Tolls(0.0, byte)).cheapest()
    if len(more.nodes) <= count:
        return more, 0.0
    if len(fewer.nodes) == count:
        return fewer, 0.0
    guess: float | None = None
    while True:
        rise = fewer.cost - more.cost + byte * (fewer.size - more.size)
        point = max(0.0, rise / (len(more.nodes) - len(fewer.nodes))) if guess is None else guess
        found = _Sweep(tree, Tolls(point, byte)).cheapest()
        number = len(found.nodes)
        if number == count:
            return found, point
        if len(fewer.nodes) < number < count:
            fewer = found
        elif count < number < len(more.nodes):
            more = found
        elif guess is None:
            return fewer, point
        else:
            guess = None
            continue
        guess = point * (number / count) ** 2


@final
class _Sweep:
    """The cheapest set of a tree where each point and each byte has a toll; `cost` includes the tolls."""

    def __init__(self, tree: Tree, tolls: Tolls) -> None:
        self._tree = tree
        prices = taxed(tree, tolls)
        # A node is taken if the nearest one above has a slope beyond this.
        self._taken_beyond = [float("inf")] * len(prices)
        # Of what is below each node: (slope, bend) ascending, and the level after the last bend.
        bends: list[deque[tuple[float, float]]] = [deque() for _ in prices]
        levels = [0.0] * len(prices)
        self.cost = 0.0
        for i in reversed(range(len(prices))):
            own, parent = bends[i], tree.parents[i]
            if tree.masses[i]:
                own.append((0.0, tree.masses[i]))
            level = self._level(i, own, levels[i], prices[i])
            if parent < 0:
                self.cost += level
                continue
            levels[parent] += level
            bends[parent] = deque(merge(bends[parent], own)) if bends[parent] else own

    def _level(self, i: int, bends: deque[tuple[float, float]], level: float, price: float) -> float:
        """Where the costs at and below node i stay level; its `bends` change from those below it to those with it."""
        slope = self._tree.slopes[i]
        # Nothing above has a slope as low as this.
        while bends and bends[0][0] <= slope:
            bends.popleft()
        take = price + level - sum(bend * (at - slope) for at, bend in bends)
        if self._tree.required[i]:
            bends.clear()
            self._taken_beyond[i] = -float("inf")
            return take
        if take >= level:
            return level
        steepness, at = 0.0, slope
        while bends:
            at, bend = bends.pop()
            steepness += bend
            following = bends[-1][0] if bends else slope
            if level - steepness * (at - following) <= take:
                break
            level -= steepness * (at - following)
        if not steepness:
            # The node saves something by rounding only.
            return level
        at -= (level - take) / steepness
        bends.append((at, steepness))
        self._taken_beyond[i] = at
        return take

    def cheapest(self) -> Set:
        """The set itself."""
        tree = self._tree
        chosen = []
        serving: list[float] = []
        for i, parent in enumerate(tree.parents):
            nearest = serving[parent] if parent >= 0 else 0.0
            take = nearest > self._taken_beyond[i]
            if take:
                chosen.append(i)
            serving.append(tree.slopes[i] if take else nearest)
        return set_of(tree, chosen)
