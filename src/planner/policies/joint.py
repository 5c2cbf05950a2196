"""What is kept where all conversations are known: one value for all states, the prompt's own and the others'.

A state serves the prompts to come that part after it and before the next state on their path. Without it they begin
at the state before it. So its worth is the number of those prompts times the tokens between the two, and the worth of
all that is kept changes by just that if it is given up. Of all that is stored and could be saved, what is worth least
goes first, until the rest is within the budget and every save pays for itself; what a state served then falls to the
one before it. States that serve the same places are so worth one of them, and one that several conversations begin
with is worth the sum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import final

from planner.budget import Budget
from planner.offsets import Existing
from planner.outcome import Eviction
from planner.policies.adaptive import Place, allowed_breaks, placement_of, possible_places
from planner.policies.situation import Placement, Situation

_ROUNDS = 2
"""How often saves are moved to where they are worth most, one after the other."""

_ROOM_FOR_TAIL = 4
"""Checkpoints of a budget one of which is for the end of the prompt at hand, whatever else they would be worth."""


def place_jointly(situation: Situation) -> tuple[Situation, tuple[Eviction, ...], Placement]:
    """What gives way of other conversations, the situation with the room that is left beside the rest, and what is
    kept and saved of the prompt."""
    request = situation.request
    beside = sorted((e for e in request.existing if e.beside), key=lambda e: e.offset)
    places = possible_places(situation)
    tree = _Tree(situation, places, beside)
    tree.prune()
    kept = [existing for i, existing in enumerate(beside, len(places)) if tree.alive[i]]
    reason = "another conversation's state, worth less than what else is kept"
    gone = tuple(Eviction(e.offset, reason, identity=e.identity) for e in beside if e not in kept)
    count, size = request.budget.checkpoints, request.budget.bytes
    left = Budget(
        None if count is None else count - len(kept),
        None if size is None else size - sum(map(request.size_of, kept)),
    )
    own = situation._replace(request=replace(request, budget=left))
    chosen = {place.offset for i, place in enumerate(places) if tree.alive[i]}
    if size is None:
        chosen = _moved(situation, places, chosen)
    return own, gone, placement_of(own, places, chosen)


def _moved(situation: Situation, places: Sequence[Place], chosen: set[int]) -> set[int]:
    """The same number of saves, each where it is worth most between those beside it."""
    request, prior = situation.request, situation.prior
    rate = prior.rate * request.costs.seconds_per_token
    offsets = [place.offset for place in places]
    prices = {place.offset: place.price for place in places if not place.held}
    for _ in range(_ROUNDS):
        for offset in sorted(chosen & prices.keys()):
            others = sorted(chosen - {offset})
            i = bisect_right(others, offset)
            low, high = others[i - 1] if i else 0, others[i] if i < len(others) else prior.length + 1
            end = prior.below(high)[0]
            between = offsets[bisect_right(offsets, low) : bisect_right(offsets, high - 1)]
            worths = {o: rate * (end - prior.below(o)[0]) * (o - low) - prices[o] for o in between if o in prices}
            best = max(worths, key=lambda o: (worths[o], o == offset))
            chosen = {*others, best}
    return chosen


@final
class _Tree:
    """All states and places by index, those of the prompt first. `alive` are those that are kept or saved."""

    def __init__(self, situation: Situation, places: Sequence[Place], beside: Sequence[Existing]) -> None:
        self._situation, request, prior = situation, situation.request, situation.prior
        own = [place.offset for place in places]
        below = [prior.below(offset)[0] for offset in (*own, prior.length + 1)]
        index = {existing.identity: i for i, existing in enumerate(beside, len(own))}
        self._offsets = [*own, *(existing.offset for existing in beside)]
        self._masses = [*(prior.rate * (b - a) for a, b in pairwise(below)), *(existing.returns for existing in beside)]
        self._sizes = [*(place.size for place in places), *map(request.size_of, beside)]
        self._prices = [*(place.price for place in places), *(0.0 for _ in beside)]
        self._new = [*(not place.held for place in places), *(False for _ in beside)]
        self._before = [
            *range(-1, len(own) - 1),
            *(index.get(e.under, bisect_right(own, e.parts_at) - 1) for e in beside),
        ]
        self._after: list[set[int]] = [set() for _ in self._offsets]
        for i, before in enumerate(self._before):
            if before >= 0:
                self._after[before].add(i)
        self.alive = [True] * len(self._offsets)
        self._tail = self._tail_of(own)

    def _tail_of(self, own: Sequence[int]) -> set[int]:
        """The places at the end of the prompt, one of which is kept if the live state is not expected to serve it."""
        request, begin = self._situation.request, self._situation.begin
        end = self._situation.roles.messages_end
        if end is None or 0 < begin == request.live or not request.budget.holds(_ROOM_FOR_TAIL, 0):
            return set()
        return {i for i, offset in enumerate(own) if offset >= end}

    def prune(self) -> None:
        """Give up what is worth least until the rest is within the budget and pays for itself."""
        request = self._situation.request
        budget, end = request.budget, request.prompt_tokens
        allowed = allowed_breaks(self._situation)
        count, size = len(self.alive), sum(self._sizes)
        breaks = [i for i, new in enumerate(self._new) if new and self._offsets[i] < end]
        broken, spent = len(breaks), sum(self._prices[i] for i in breaks)
        worths = [self._worth(i) for i in range(count)]
        heap = [(worth, i) for i, worth in enumerate(worths)]
        heapify(heap)
        while heap:
            worth, i = heappop(heap)
            if not self.alive[i] or worth != worths[i]:
                continue
            if self._tail == {i}:
                continue
            a_break = self._new[i] and self._offsets[i] < end
            if budget.holds(count, size) and worth >= 0:
                if broken <= 1 or spent <= allowed:
                    break
                if not a_break:
                    continue
            count, size = count - 1, size - self._sizes[i]
            broken, spent = broken - a_break, spent - a_break * self._prices[i]
            for changed in self._give_up(i):
                worths[changed] = self._worth(changed)
                heappush(heap, (worths[changed], changed))

    def _worth(self, i: int) -> float:
        """Seconds that it saves beside the others, less its price; with a budget in bytes alone for each byte."""
        request, before = self._situation.request, self._before[i]
        replayed = self._offsets[i] - (self._offsets[before] if before >= 0 else 0)
        worth = self._masses[i] * replayed * request.costs.seconds_per_token - self._prices[i]
        by_size = request.budget.checkpoints is None and request.budget.bytes is not None and worth > 0
        return worth / self._sizes[i] if by_size and self._sizes[i] else worth

    def _give_up(self, i: int) -> list[int]:
        """Take it out; those whose worth changes by it."""
        before = self._before[i]
        self.alive[i] = False
        self._tail.discard(i)
        for after in self._after[i]:
            self._before[after] = before
        if before >= 0:
            self._masses[before] += self._masses[i]
            self._after[before].discard(i)
            self._after[before] |= self._after[i]
        return [*self._after[i], *([before] if before >= 0 else [])]
