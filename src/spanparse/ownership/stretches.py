"""Stretches of text between what one message says and what another says, each settled by itself.

The rules for neighbours look at the template's own text around a border, up to the fields on both sides; where a
message stands inside another one's text, at all of both. So every stretch between two fields that no message reaches
over is settled alone, and one that looks like another has the same borders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from spanparse.marks.marked import Runs
from spanparse.ownership.pieces import Begin, begins_of
from spanparse.ownership.segments import Segment, is_field

_Key = tuple[object, ...]
_new: Final = tuple.__new__
# What stands in a key for the kind of what follows; equal to nothing else there.
_ROLE, _FIELD = object(), object()
# A stretch of more runs than this has hardly another one that looks like it.
_LONG: Final = 100


@final
class Stretches:
    """Finds where the pieces of `text` begin.

    `owners` are those that `runs` show by themselves, None for text whose owner its surroundings tell; `changes` are
    the places of runs with another one than the run before. `settle` applies the rules to segments, and says whether
    the answer depends on nothing but what they look like. Where a message begins with one of `openings`, no rule gives
    any of its text to the one before, or the other way round.
    """

    def __init__(
        self,
        text: str,
        runs: Runs,
        owners: Sequence[int | None],
        changes: Sequence[int],
        roles: Sequence[str],
        openings: tuple[str, ...],
        settle: Callable[[list[Segment]], tuple[Sequence[Segment], bool]],
    ) -> None:
        self._text = text
        self._runs = runs
        self._owners = owners
        self._changes = changes
        self._roles = roles
        self._openings = openings
        self._settle = settle
        self._reached_over = _reached_over(owners, changes)
        self._known: dict[_Key, list[tuple[int, int, int]]] = {}

    def begins(self) -> list[Begin]:
        """Where the pieces begin."""
        text, runs, owners, openings, inside = self._text, self._runs, self._owners, self._openings, self._reached_over
        begins: list[Begin] = []
        behind = 0
        if owners and owners[0] is not None and is_field(runs[0]):
            begins.append(Begin(0, 0, owners[0]))
        elif owners:
            behind = self._settled(begins, 0, 0)
        for place in self._changes:
            if place < behind:
                continue
            before, owner = owners[place - 1], owners[place]
            if before is not None and owner is not None and not inside[place - 1] and not inside[place]:
                start, end, origin, _ = runs[place]
                if before < 0 or owner < 0 or (origin[1] and text.startswith(openings, start, end)):
                    begins.append(_new(Begin, (start, place, owner)))
                    continue
            behind = self._settled(begins, place - 1, place)
        return begins

    def _settled(self, begins: list[Begin], first: int, last: int) -> int:
        """Settles the stretch that the runs at `first` and `last` stand in; gives the place of the field behind it."""
        runs, owners, inside = self._runs, self._owners, self._reached_over
        while first and (inside[first] or not is_field(runs[first])):
            first -= 1
        while last < len(runs) and (inside[last] or not is_field(runs[last])):
            last += 1
        while begins and begins[-1][1] > first:
            begins.pop()
        owner = owners[first]
        at_an_end = last == len(runs) or (not first and (inside[0] or not is_field(runs[0])))
        if owner is None or at_an_end or last - first > _LONG:
            found, _ = self._found(first, last)
            if begins and (begins[-1].owner == found[0].owner or begins[-1].place == first):
                found[0] = begins.pop()._replace(owner=found[0].owner)
            begins += found
            return last
        key = self._key(first, last, owner)
        known = self._known.get(key)
        if known is None:
            found, is_general = self._found(first, last)
            known = [(offset - runs[place].start, place - first, other - owner) for offset, place, other in found[1:]]
            if is_general:
                self._known[key] = known
        for offset, place, other in known:
            place += first
            begins.append(_new(Begin, (runs[place][0] + offset, place, owner + other)))
        return last

    def _found(self, first: int, last: int) -> tuple[list[Begin], bool]:
        """Where pieces begin from run `first` to `last`, and whether they do in all runs that look like these."""
        runs, owners = self._runs[first : last + 1], self._owners[first : last + 1]
        segments, is_general = self._settle([Segment(*run, owner) for run, owner in zip(runs, owners, strict=True)])
        return begins_of(segments, self._runs, first), is_general

    def _key(self, first: int, last: int, base: int) -> _Key:
        """All that the rules look at in the stretch between two fields, the first of which is of the message `base`.

        Of a field in front of the template's text that is whether a word may go on behind it.
        """
        text, runs, owners, roles = self._text, self._runs, self._owners, self._roles
        shape: list[object] = [roles[base], _goes_on(text[runs[first][1] - 1 : runs[first][1]])]
        known: int | None = base
        for place in range(first + 1, last):
            start, end, (path, literal, message), _ = runs[place]
            if owners[place] != known:
                known = owners[place]
                shape += (None,) if known is None else (known - base, roles[known])
            if message is None:
                shape.append(path)
            if literal:
                shape.append(text[start:end])
            elif path[-1] == "role":
                shape += (_ROLE, text[start:end])
            else:
                shape += (_FIELD, path[2:], start < end, _goes_on(text[end - 1 : end]))
        behind = owners[last]
        if behind != known and behind is not None:
            shape += (behind - base, roles[behind])
        return tuple(shape)


def _reached_over(owners: Sequence[int | None], changes: Sequence[int]) -> bytearray:
    """Of each run whether its message, or another one, has text here or in front and goes on behind another's text."""
    reached = bytearray(len(owners))
    begun = [owners[place] for place in (0, *changes)] if owners else []
    if len(set(begun)) == len(begun):
        return reached
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    before: int | None = None
    for place in (0, *changes):
        owner = owners[place]
        if owner is not None and owner != before:
            first.setdefault(owner, place)
            last[owner] = place
            before = owner
    for owner, begin in first.items():
        end = last[owner]
        if begin < end:
            reached[begin:end] = b"\1" * (end - begin)
    return reached


def _goes_on(char: str) -> bool | str:
    """Whether a word may go on behind a character; a tag may behind the one that opens it."""
    return char if char == "<" else char == "_" or char.isalnum()
