"""The least that anyone could have evaluated again on a line who knew all prompts to come.

No policy can know that, so it is no policy: it says how much of a replay is for want of room and how much for want of
foresight. A prompt that parts from the one before it makes a *demand* for a state at that offset. With more
demands pending than checkpoints, the optimum is found by trying all sets in small cases, and lies between two bounds
otherwise, which mostly meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple, final

from planner.budget import Budget
from planner.expectation.prior import Atom, Prior
from planner.optimum.selection import Point, select


@final
class Visit(NamedTuple):
    """A prompt on the line: its length, and how many tokens it shares with the one before it."""

    length: int
    shared: int


@final
class Bounds(NamedTuple):
    """Tokens evaluated again in all, beyond what no earlier prompt had: at least `lower`, and `upper` can be done."""

    lower: int
    upper: int


def bounds(visits: Sequence[Visit], count: int) -> Bounds:
    """Bounds of the optimum with `count` checkpoints beside the tip, the state at the end of the last prompt."""
    return Bounds(_lower(visits, count), upper_bound(visits, count))


def upper_bound(visits: Sequence[Visit], count: int) -> int:
    """What can be done, the upper of the two bounds; much faster to find than the other."""
    horizons = sorted({count, 2 * count, 4 * count, len(visits)})
    return min(_upper(visits, count, horizon) for horizon in horizons)


def exact(visits: Sequence[Visit], count: int) -> int:
    """The optimum itself, by all sets of checkpoints at demanded offsets; for a handful of demands."""
    demands = [_demand(visits, i) for i in range(len(visits))]
    useful = sorted({demand for demand in demands if demand is not None})
    costs = {frozenset[int](): 0}
    for visit, demand in zip(visits, demands, strict=True):
        after: dict[frozenset[int], int] = {}
        for stored, cost in costs.items():
            kept = {offset for offset in stored if offset <= visit.shared}
            begin = visit.shared if demand is None else max((o for o in kept if o <= demand), default=0)
            paid = cost + (0 if demand is None else demand - begin)
            pool = sorted(kept | {offset for offset in useful if begin < offset <= visit.length})
            for number in range(min(count, len(pool)) + 1):
                for chosen in map(frozenset, combinations(pool, number)):
                    after[chosen] = min(paid, after.get(chosen, paid))
        costs = after
    return min(costs.values())


def _demand(visits: Sequence[Visit], i: int) -> int | None:
    """The offset at which prompt i would best be restored; None if the tip, or nothing, serves it."""
    visit, before = visits[i], visits[i - 1].length if i else 0
    if visit.shared in (0, before) and visit.shared < visit.length:
        return None
    # At least one token is evaluated.
    return min(visit.shared, visit.length - 1) or None


def _pending(visits: Sequence[Visit], now: int, until: int) -> list[int]:
    """Offsets in prompt `now` that prompts up to `until` demand, in their order, of what is still the same then."""
    same, found = visits[now].length, []
    for i in range(now + 1, until + 1):
        demand = _demand(visits, i)
        if demand is not None and demand <= same:
            found.append(demand)
        same = min(same, visits[i].shared)
        if not same:
            break
    return found


def _upper(visits: Sequence[Visit], count: int, horizon: int) -> int:
    """What it costs to keep, after each prompt, the set that serves its next `horizon` demands best."""
    stored: set[int] = set()
    total = 0
    for now, visit in enumerate(visits):
        demand = _demand(visits, now)
        stored = {offset for offset in stored if offset <= visit.shared}
        begin = visit.shared
        if demand is not None:
            begin = max((offset for offset in stored if offset <= demand), default=0)
            total += demand - begin
        pending = _pending(visits, now, len(visits) - 1)[:horizon]
        pool = {offset for offset in pending if offset in stored or offset > begin} | stored
        if len(pool) > count:
            prior = Prior(visit.length, [Atom(offset, 1.0) for offset in pending])
            pool = set(select([Point(offset) for offset in sorted(pool)], prior, Budget(count)) or ())
        stored = pool
    return total


def _lower(visits: Sequence[Visit], count: int) -> int:
    """The most that can be proven of any way to spend the room.

    At a moment with m demands pending, m - count of the demanded offsets are not stored. Each of those is passed again
    before it is met, so all tokens between the demanded offset before it and itself are evaluated again: together at
    least the m - count shortest such stretches, less the last tokens of prompts that are shared as a whole, which
    anyone evaluates. Of moments whose demands are met before the next of them comes, these add up; the best such
    moments are found by a dynamic programme.
    """
    best = [0] * len(visits)
    for last in range(1, len(visits)):
        best[last] = best[last - 1]
        if _demand(visits, last) is None:
            continue
        for now in range(last):
            offsets = sorted({0, *_pending(visits, now, last)})
            given = {visit.length for visit in visits[now + 1 : last + 1] if visit.shared == visit.length}
            stretches = sorted(b - a - sum(a < end <= b for end in given) for a, b in pairwise(offsets))
            best[last] = max(best[last], best[now] + sum(stretches[: max(0, len(stretches) - count)]))
    return best[-1] if visits else 0
