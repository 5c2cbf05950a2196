"""A list of checkpoints with a rule for what makes room: how other systems keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, final

from planner.outcome import Eviction
from planner.policies.situation import Mark, Placement, Situation


@final
class Victim(NamedTuple):
    """The offset of a stored checkpoint that makes room, and why this one."""

    offset: int
    reason: str


Rule = Callable[[Sequence[int], int | None], Victim]
"""Chooses among the stored offsets, the longest stored first; the second argument is the offset that is about to be
saved, None if the budget shrank."""


def oldest(stored: Sequence[int], coming: int | None) -> Victim:
    """First in, first out."""
    return Victim(stored[0], "the oldest")


@final
class Queue:
    """The checkpoints of a situation in order of age, within its budget.

    What is saved and dropped again for the same prompt stays a break without a save: the plan stores only what remains.
    """

    def __init__(self, situation: Situation, rule: Rule = oldest) -> None:
        request = situation.request
        self._rule = rule
        self._begin = situation.begin
        self._budget = request.budget
        self._bytes_at = request.bytes_at
        by_age = sorted(situation.held, key=lambda existing: (-existing.age, existing.offset))
        self._stored = {existing.offset: request.size_of(existing) for existing in by_age}
        self._marks: dict[int, Mark] = {}
        self._renewed: set[int] = set()
        self._evict: list[Eviction] = []
        self._make_room(0, 0, None)

    @property
    def last(self) -> int | None:
        """Offset of the newest checkpoint."""
        return next(reversed(self._stored), None)

    def save(self, mark: Mark, *, thin_below: int | None = None) -> None:
        """Append a checkpoint, making room by the rule; nothing if the budget is less than one.

        With `thin_below`, first drop those of earlier prompts that are within so many tokens of the one before, as
        long as this one would fill the list.
        """
        size = self._bytes_at(mark.offset)
        if mark.offset in self._stored or not self._budget.holds(1, size):
            return
        if thin_below is not None:
            self._thin(thin_below, mark.offset, size)
        self._make_room(1, size, mark.offset)
        self._stored[mark.offset] = size
        self._marks[mark.offset] = mark

    def renew(self, offset: int, *, thin_below: int) -> None:
        """Count a stored checkpoint as the newest, as if it had been saved once more and then its old copy dropped.

        Nothing if a smaller budget has no room for it any more.
        """
        size = self._stored.get(offset)
        if size is None:
            return
        self._thin(thin_below, None, size, copied=offset)
        while not self._room(1, size):
            victim = self._rule([*self._stored], offset)
            if victim.offset == offset:
                break
            self._drop(victim.offset, None, victim.reason)
        self._stored.pop(offset, None)
        self._stored[offset] = size
        self._renewed.add(offset)

    def pass_by(self, mark: Mark, reason: str) -> None:
        """Break at an offset without saving."""
        self._marks[mark.offset] = mark._replace(save=False, reason=reason)

    def placement(self) -> Placement:
        """All that was saved and dropped so far."""
        marks = sorted(self._marks.values())
        saved = [mark.offset for mark in marks if mark.save]
        # An eviction may have made room for a save that was dropped again: then it serves the next that remains.
        evict = (
            e if e.before is None else replace(e, before=min((s for s in saved if s >= e.before), default=None))
            for e in self._evict
        )
        return Placement(tuple(marks), tuple(sorted(evict, key=lambda e: e.before or 0)))

    def _room(self, count: int, size: int) -> bool:
        return self._budget.holds(len(self._stored) + count, sum(self._stored.values()) + size)

    def _make_room(self, count: int, size: int, before: int | None) -> None:
        while self._stored and not self._room(count, size):
            offset, reason = self._rule([*self._stored], before)
            self._drop(offset, before, reason)

    def _thin(self, distance: int, before: int | None, size: int, copied: int | None = None) -> None:
        last: int | None = None
        for offset in list(self._stored):
            if self._room(2, 2 * size):
                return
            ours = offset in self._marks or offset in self._renewed
            if not ours and last is not None and offset <= last + distance:
                if offset == copied:
                    del self._stored[offset]
                    continue
                self._drop(offset, before, f"within {distance} tokens of the one before it, and the list is full")
            else:
                last = offset

    def _drop(self, offset: int, before: int | None, reason: str) -> None:
        del self._stored[offset]
        if offset == self._begin and offset in self._marks:
            # No break was paid for it.
            del self._marks[offset]
        elif offset in self._marks:
            self.pass_by(self._marks[offset], "saved and dropped again for a later one; the break is paid all the same")
        else:
            self._evict.append(Eviction(offset, reason, before))
