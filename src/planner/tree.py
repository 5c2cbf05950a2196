"""The best set of checkpoints in a tree of prompts that share prefixes, exactly.

On a line the cost of the best m checkpoints is convex in m. In a tree it is not: one checkpoint where three branches
part may do the work of three, and two be hardly better than one. So a toll on each point and byte gives a bound here
and a good set, not always the best; nodes that cannot be part of anything better are then left out, and what remains
is searched exactly: for each node and each choice of the nearest checkpoint above it, the undominated sets below it by
number, bytes and cost, joined over branches (the dynamic programme for medians in trees: Tamir, An O(pn²) algorithm
for the p-median and related problems on tree graphs, 1996, with service from above only).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, final

from planner.request import Budget

_MOST_LABELS = 100_000
"""Sets that the exact search joins, about a microsecond each, before the set met with tolls is taken."""


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


@final
class _Tree(NamedTuple):
    """Nodes that may be chosen, parents first, as parallel lists; `above`: slopes of the places to serve it from.

    A slope is what a divergence costs more if it is served from a node instead of from the start.
    """

    parents: list[int]
    slopes: list[float]
    masses: list[float]
    prices: list[float]
    sizes: list[int]
    required: list[bool]
    names: list[int]
    above: list[list[float]]


@final
class _Sweep(NamedTuple):
    """Least costs for given prices. `below`: of all under a node, by the nearest choice above or the node itself."""

    below: list[list[float]]
    taken: list[float]
    cost: float


@final
class _Set(NamedTuple):
    """Chosen nodes, ascending, and what they use and cost."""

    nodes: tuple[int, ...]
    size: int
    cost: float


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
    least = _set_of(tree, [i for i, needed in enumerate(tree.required) if needed])
    if len(least.nodes) > count or least.size > limit:
        return None
    best, tolls = _with_tolls(tree, least, count, limit)
    return tuple(tree.names[i] for i in _searched(tree, best, tolls, count, limit))


def _contracted(nodes: Sequence[Node], kept: Sequence[int], rate: float, per_restore: float) -> _Tree:
    """The tree of the nodes `kept` (ascending); what the others stood for moves up, where it would be served from."""
    place = {name: i for i, name in enumerate(kept)}
    nearest: list[int] = []
    tree = _Tree([], [], [], [], [], [], list(kept), [])
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
        tree.above.append([*tree.above[parent], tree.slopes[parent]] if parent >= 0 else [0.0])
    return tree


def _sweep(tree: _Tree, prices: Sequence[float]) -> _Sweep:
    below = [[0.0] * (len(above) + 1) for above in tree.above]
    taken = [0.0] * len(below)
    cost = 0.0
    for i in reversed(range(len(below))):
        mass, sums, parent = tree.masses[i], below[i], tree.parents[i]
        take = taken[i] = prices[i] + mass * tree.slopes[i] + sums[-1]
        if tree.required[i]:
            row = [take] * len(tree.above[i])
        else:
            # The last of `sums` is for the node itself.
            row = [min(take, mass * slope + under) for slope, under in zip(tree.above[i], sums, strict=False)]
        if parent >= 0:
            below[parent] = [a + b for a, b in zip(below[parent], row, strict=True)]
        else:
            cost += row[0]
    return _Sweep(below, taken, cost)


def _cheapest(tree: _Tree, point: float, byte: float) -> _Set:
    """The cheapest set if each point and each byte costs a toll; its cost leaves the tolls out."""
    found = _sweep(tree, _taxed(tree, point, byte))
    chosen = []
    serving: list[int] = []
    for i, parent in enumerate(tree.parents):
        # The index among the places above of the nearest one that is chosen.
        at = serving[parent] if parent >= 0 else 0
        take = tree.required[i] or found.taken[i] < tree.masses[i] * tree.above[i][at] + found.below[i][at]
        if take:
            chosen.append(i)
        serving.append(len(tree.above[i]) if take else at)
    return _set_of(tree, chosen)


def _taxed(tree: _Tree, point: float, byte: float) -> list[float]:
    return [price + point + byte * size for price, size in zip(tree.prices, tree.sizes, strict=True)]


def _set_of(tree: _Tree, chosen: Sequence[int]) -> _Set:
    taken = set(chosen)
    cost = 0.0
    served: list[float] = []
    for i, (parent, mass) in enumerate(zip(tree.parents, tree.masses, strict=True)):
        served.append(tree.slopes[i] if i in taken else served[parent] if parent >= 0 else 0.0)
        cost += mass * served[i] + (tree.prices[i] if i in taken else 0.0)
    return _Set(tuple(chosen), sum(tree.sizes[i] for i in chosen), cost)


def _with_tolls(tree: _Tree, least: _Set, count: int, limit: int) -> tuple[_Set, tuple[float, float]]:
    """The best fitting set met on the way to the tolls at which no set lies below the chord of two."""
    best, point = _limited(tree, least, count, 0.0)
    if best.size <= limit:
        return best, (point, 0.0)
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
            return best, (point, byte)


def _limited(tree: _Tree, least: _Set, count: int, byte: float) -> tuple[_Set, float]:
    """The same for the number of points, where each byte has a toll."""
    fewer, more = least, _cheapest(tree, 0.0, byte)
    if len(more.nodes) <= count:
        return more, 0.0
    if len(fewer.nodes) == count:
        return fewer, 0.0
    guess: float | None = None
    while True:
        rise = fewer.cost - more.cost + byte * (fewer.size - more.size)
        point = max(0.0, rise / (len(more.nodes) - len(fewer.nodes))) if guess is None else guess
        found = _cheapest(tree, point, byte)
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
class _Label(NamedTuple):
    """An undominated choice below some node; `link`: nodes and links that were joined to it, or None."""

    number: int
    size: int
    cost: float
    link: tuple[object, object] | None


def _searched(tree: _Tree, best: _Set, tolls: tuple[float, float], count: int, limit: int) -> tuple[int, ...]:
    """The best of all sets, `best` included; just that if the search grows beyond `_MOST_LABELS`."""
    point, byte = tolls
    taxed = _taxed(tree, point, byte)
    swept = _sweep(tree, taxed)
    rebate = point * count + byte * limit
    # The bound and the set may differ by rounding only: then there is nothing to find.
    if swept.cost - rebate >= best.cost - 1e-12 * abs(best.cost):
        return best.nodes
    outside = _outside(tree, swept, taxed)
    allowed = [
        tree.required[i] or min(around) + swept.taken[i] - rebate < best.cost for i, around in enumerate(outside)
    ]
    joined: list[list[list[_Label]]] = [[[_Label(0, 0, 0.0, None)]] * (len(above) + 1) for above in tree.above]
    top = [_Label(0, 0, 0.0, None)]
    work = 0
    for i in reversed(range(len(joined))):
        mass, parent, rows = tree.masses[i], tree.parents[i], joined[i]
        taken: list[_Label] = []
        if allowed[i]:
            cost = tree.prices[i] + mass * tree.slopes[i]
            taken = [
                _Label(one.number + 1, one.size + tree.sizes[i], one.cost + cost, (i, one.link)) for one in rows[-1]
            ]
        for at, slope in enumerate(tree.above[i]):
            left = [] if tree.required[i] else [one._replace(cost=one.cost + mass * slope) for one in rows[at]]
            ceiling = best.cost + rebate - outside[i][at]
            labels = _undominated(
                one
                for one in chain(left, taken)
                if one.cost + point * one.number + byte * one.size < ceiling
                if one.number <= count and one.size <= limit
            )
            before = joined[parent][at] if parent >= 0 else top
            work += len(before) * len(labels)
            if work > _MOST_LABELS:
                return best.nodes
            both = _undominated(
                _Label(a.number + b.number, a.size + b.size, a.cost + b.cost, (a.link, b.link))
                for a in before
                for b in labels
                if a.number + b.number <= count and a.size + b.size <= limit
            )
            if parent >= 0:
                joined[parent][at] = both
            else:
                top = both
        joined[i] = []
    found = min(top, key=lambda one: one.cost, default=None)
    return best.nodes if found is None or found.cost >= best.cost else tuple(sorted(_nodes(found.link)))


def _outside(tree: _Tree, swept: _Sweep, taxed: Sequence[float]) -> list[list[float]]:
    """What all that is not at or below a node costs at least, by the nearest choice above it."""
    rows: list[list[float]] = []
    for i, parent in enumerate(tree.parents):
        own = [
            swept.taken[i] if tree.required[i] else min(swept.taken[i], tree.masses[i] * slope + under)
            for slope, under in zip(tree.above[i], swept.below[i], strict=False)
        ]
        if parent < 0:
            rows.append([swept.cost - own[0]])
            continue
        around, mass = rows[parent], tree.masses[parent]
        beside = [under - mine for under, mine in zip(swept.below[parent], own, strict=True)]
        passed = [
            float("inf") if tree.required[parent] else far + mass * slope + near
            for far, slope, near in zip(around, tree.above[parent], beside, strict=False)
        ]
        rows.append([*passed, min(around) + taxed[parent] + mass * tree.slopes[parent] + beside[-1]])
    return rows


def _undominated(labels: Iterable[_Label]) -> list[_Label]:
    kept: list[_Label] = []
    for one in sorted(labels, key=lambda label: label[:3]):
        if not any(other.size <= one.size and other.cost <= one.cost for other in kept):
            kept.append(one)
    return kept


def _nodes(link: object) -> list[int]:
    found = []
    todo = [link]
    while todo:
        at = todo.pop()
        if isinstance(at, tuple):
            todo += at
        elif isinstance(at, int):
            found.append(at)
    return found
