"""The pieces that a text falls into: its runs, cut where the owner changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple, final

from spanparse.marks.marked import Runs
from spanparse.marks.origin import Run
from spanparse.ownership.segments import Segment
from spanparse.spans import Piece

_Look = tuple[object, ...]
# What stands in a look for the kind of what follows; equal to nothing else there.
_NO_MESSAGE, _OTHER_MESSAGE, _ROLE = object(), object(), object()
_OFFSET: Final = itemgetter(0)
_new: Final = tuple.__new__


class Begin(NamedTuple):
    """Where a piece of `owner` begins: at `offset`, in the run at `place`."""

    offset: int
    place: int
    owner: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who owns a text that `runs` tile: from each of `begins` on another owner, and the start-of-turn markers used.

    `unclear` holds the messages whose border with a neighbour no rule decides.
    """

    runs: Runs
    begins: Sequence[Begin]
    starts: frozenset[str]
    unclear: frozenset[int]

    @property
    def order(self) -> list[int]:
        """The owner of each piece."""
        return [owner for _, _, owner in self.begins]

    def ranges(self) -> list[Piece]:
        """Where each piece begins and ends."""
        if not self.begins:
            return []
        ends = [*[offset for offset, _, _ in self.begins[1:]], self.runs[-1].end]
        return [_new(Piece, (begin[0], end)) for begin, end in zip(self.begins, ends, strict=True)]


@final
class Pieces:
    """The pieces of `text`, which `ownership` tells, each made of segments when it is first asked for."""

    def __init__(self, text: str, ownership: Ownership) -> None:
        self._text = text
        self._ownership = ownership
        self._runs: dict[int, Runs] = {}
        self._made: dict[int, list[Segment]] = {}
        self._likes: dict[int, int] = {}
        self._known: dict[_Look, int] = {}

    def __getitem__(self, place: int) -> list[Segment]:
        piece = self._made.get(place)
        if piece is None:
            owner = self._ownership.begins[place].owner
            # An empty field of another message is no part of it.
            piece = [Segment(*run, owner) for run in self.runs(place) if run[0] < run[1] or run[2][2] == owner]
            self._made[place] = piece
        return piece

    def runs(self, place: int) -> Runs:
        """The runs that tile the piece at `place`."""
        runs = self._runs.get(place)
        if runs is None:
            runs = self._runs[place] = _runs_from(self._ownership, place)
        return runs

    def like(self, place: int) -> int:
        """The place of the first piece asked for that looks like the one at `place`.

        Pieces look alike if the same is written in them on behalf of the same fields, and the same fields are shown in
        the same order, whatever their texts, except the role's, say; an empty text is not like others.
        """
        like = self._likes.get(place)
        if like is None:
            like = self._likes[place] = self._known.setdefault(self._look(place), place)
        return like

    def _look(self, place: int) -> _Look:
        text, owner = self._text, self._ownership.begins[place][2]
        look: list[object] = []
        for start, end, (path, literal, message), _ in self.runs(place):
            if message == owner:
                look.append(path[2:])
            else:
                look += (_NO_MESSAGE, path) if message is None else (_OTHER_MESSAGE, path[2:])
            if literal:
                look.append(text[start:end])
            elif path[-1] == "role":
                look += (_ROLE, text[start:end])
            else:
                look.append(start < end)
        return tuple(look)


def _runs_from(ownership: Ownership, place: int) -> Runs:
    runs, begins = ownership.runs, ownership.begins
    begin, first, _ = begins[place]
    if place + 1 == len(begins):
        end, found = runs[-1][1], runs[first:]
    else:
        end, behind, _ = begins[place + 1]
        found = runs[first : behind + 1] if runs[behind][0] < end else runs[first:behind]
    if found[-1][1] > end:
        found = (*found[:-1], found[-1]._replace(end=end))
    if found[0][0] < begin:
        found = (found[0]._replace(start=begin, source=-1), *found[1:])
    return found


def begins_of(segments: Iterable[Segment], runs: Runs, place: int = 0) -> list[Begin]:
    """Where the owner changes among `segments`, which all have one and stand in `runs` from `place` on.

    Runs without characters may be missing among them.
    """
    begins: list[Begin] = []
    known: int | None = None
    for segment in segments:
        owner = segment.owner
        while not _holds(runs[place], segment):
            place += 1
        if owner != known:
            assert owner is not None
            begins.append(Begin(segment.start, place, owner))
            known = owner
        if segment.end == runs[place].end:
            place += 1
    return begins


def _holds(run: Run, segment: Segment) -> bool:
    if segment.start < segment.end:
        return run.end > segment.start
    return run.start == run.end == segment.start


def with_characters(begins: list[Begin], end: int) -> list[Begin]:
    """`begins` of a text that ends at `end` without the pieces that have no characters, the empty fields of others."""
    offsets = [*map(_OFFSET, begins), end]
    if len(set(offsets)) == len(offsets):
        return begins
    kept: list[Begin] = []
    for begin, after in zip(begins, offsets[1:], strict=True):
        if begin.offset < after and (not kept or kept[-1].owner != begin.owner):
            kept.append(begin)
    return kept
