"""The pieces that a text falls into: its runs, cut where the owner changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple, final

from spanparse.marks.marked import Runs
from spanparse.marks.origin import Run
from spanparse.ownership.segments import Segment


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

    def end(self, place: int) -> int:
        """Where the piece at `place` ends."""
        return self.begins[place + 1].offset if place + 1 < len(self.begins) else self.runs[-1].end


_OFFSET: Final = itemgetter(0)


@final
class Pieces:
    """The pieces of `ownership` as segments, each made when it is first asked for."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._made: dict[int, list[Segment]] = {}

    def __getitem__(self, place: int) -> list[Segment]:
        piece = self._made.get(place)
        if piece is None:
            piece = self._made[place] = _piece(self._ownership, place)
        return piece


def _piece(ownership: Ownership, place: int) -> list[Segment]:
    runs, begins = ownership.runs, ownership.begins
    offset, first, owner = begins[place]
    end, behind, _ = begins[place + 1] if place + 1 < len(begins) else (runs[-1].end, len(runs), None)
    piece = [Segment(*run, owner) for run in runs[first:behind] if run[0] < run[1] or run[2][2] == owner]
    if behind < len(runs) and runs[behind].start < end:
        piece.append(Segment(*runs[behind], owner))
        piece[-1].end = end
    if piece[0].start < offset:
        piece[0].start, piece[0].source = offset, -1
    return piece


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
