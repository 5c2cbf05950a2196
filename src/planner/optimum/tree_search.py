"""Exact search for the best set of checkpoints in a tree, among what a bound leaves.

For each node and each choice of the nearest checkpoint above it, the undominated sets below it by number, bytes and
cost are joined over branches (the dynamic programme for medians in trees: Tamir, An O(pn²) algorithm for the p-median
and related problems on tree graphs, 1996, with service from above only). Sets that cannot be part of anything better
than the best one met so far are dropped on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, final

_MOST_LABELS = 100_000
"""Sets that the search joins, about a microsecond each, before the best set met so far is taken."""

_DEEPEST = 1_000_000
"""Pairs of a node and a place above it, before the same."""


@final
class Tree(NamedTuple):
    """Nodes that may be chosen, parents first, as parallel lists; `parents` -1: none.

    slopes: what a divergence costs more if it is served from a node instead of from the start; masses: of the
    divergences that a node serves if it is chosen and nothing below it is.
    """

    parents: list[int]
    slopes: list[float]
    masses: list[float]
    prices: list[float]
    sizes: list[int]
    required: list[bool]


@final
class Tolls(NamedTuple):
    """A price for each point and for each byte, beside the points' own prices."""

    point: float
    byte: float


@final
class Set(NamedTuple):
    """Chosen nodes, ascending, and what they use and cost, tolls left out."""

    nodes: tuple[int, ...]
    size: int
    cost: float


def taxed(tree: Tree, tolls: Tolls) -> list[float]:
    """The nodes' prices with tolls."""
    return [price + tolls.point + tolls.byte * size for price, size in zip(tree.prices, tree.sizes, strict=True)]


def set_of(tree: Tree, chosen: Sequence[int]) -> Set:
    """What a set of nodes, ascending, costs."""
    taken = set(chosen)
    cost = 0.0
    served: list[float] = []
    for i, (parent, mass) in enumerate(zip(tree.parents, tree.masses, strict=True)):
        served.append(tree.slopes[i] if i in taken else served[parent] if parent >= 0 else 0.0)
        cost += mass * served[i] + (tree.prices[i] if i in taken else 0.0)
    return Set(tuple(chosen), sum(tree.sizes[i] for i in chosen), cost)


@final
class _Rows(NamedTuple):
    """Least costs for given prices. `below`: of all under a node, by the nearest choice above or the node itself."""

    below: list[list[float]]
    taken: list[float]
    cost: float


def _swept(tree: Tree, above: Sequence[Sequence[float]], prices: Sequence[float]) -> _Rows:
    below = [[0.0] * (len(places) + 1) for places in above]
    taken = [0.0] * len(below)
    cost = 0.0
    for i in reversed(range(len(below))):
        mass, sums, parent = tree.masses[i], below[i], tree.parents[i]
        take = taken[i] = prices[i] + mass * tree.slopes[i] + sums[-1]
        if tree.required[i]:
            row = [take] * len(above[i])
        else:
            # The last of `sums` is for the node itself.
            row = [min(take, mass * slope + under) for slope, under in zip(above[i], sums, strict=False)]
        if parent >= 0:
            below[parent] = [a + b for a, b in zip(below[parent], row, strict=True)]
        else:
            cost += row[0]
    return _Rows(below, taken, cost)


@final
class _Label(NamedTuple):
    """An undominated choice below some node; `link`: nodes and links that were joined to it, or None."""

    number: int
    size: int
    cost: float
    link: tuple[object, object] | None


def search(tree: Tree, best: Set, tolls: Tolls, count: int, limit: int) -> Set:
    """The best of all sets of at most `count` nodes and `limit` bytes; `best`, one of them, if that is too much work.

    `tolls` give the bound: any are right, the better ones leave less to search.
    """
    above: list[list[float]] = []
    for parent in tree.parents:
        above.append([*above[parent], tree.slopes[parent]] if parent >= 0 else [0.0])
        if len(above) * len(above[-1]) > _DEEPEST:
            return best
    point, byte = tolls
    prices = taxed(tree, tolls)
    swept = _swept(tree, above, prices)
    rebate = point * count + byte * limit
    outside = _outside(tree, above, swept, prices)
    allowed = [
        tree.required[i] or min(around) + swept.taken[i] - rebate < best.cost for i, around in enumerate(outside)
    ]
    joined: list[list[list[_Label]]] = [[[_Label(0, 0, 0.0, None)]] * (len(places) + 1) for places in above]
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
        for at, slope in enumerate(above[i]):
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
                return best
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
    return best if found is None or found.cost >= best.cost else set_of(tree, sorted(_nodes(found.link)))


def _outside(tree: Tree, above: Sequence[Sequence[float]], swept: _Rows, prices: Sequence[float]) -> list[list[float]]:
    """What all that is not at or below a node costs at least, by the nearest choice above it."""
    rows: list[list[float]] = []
    for i, parent in enumerate(tree.parents):
        own = [
            swept.taken[i] if tree.required[i] else min(swept.taken[i], tree.masses[i] * slope + under)
            for slope, under in zip(above[i], swept.below[i], strict=False)
        ]
        if parent < 0:
            rows.append([swept.cost - own[0]])
            continue
        around, mass = rows[parent], tree.masses[parent]
        beside = [under - mine for under, mine in zip(swept.below[parent], own, strict=True)]
        passed = [
            float("inf") if tree.required[parent] else far + mass * slope + near
            for far, slope, near in zip(around, above[parent], beside, strict=False)
        ]
        rows.append([*passed, min(around) + prices[parent] + mass * tree.slopes[parent] + beside[-1]])
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
