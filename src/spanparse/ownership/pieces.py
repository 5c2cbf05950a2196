"""The pieces that a text falls into: its runs, cut where the owner changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from spanparse.marks.marked import Runs
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
    piece = [Segment(*run, owner) for run in runs[first : behind + 1]]
    if piece[-1].start >= end:
        piece.pop()
    elif piece[-1].end > end:
        piece[-1].end = end
    if piece[0].start < offset:
        piece[0].start, piece[0].source = offset, -1
    return piece


def begins_of(segments: Iterable[Segment], runs: Runs, place: int = 0) -> list[Begin]:
    """Where the owner changes among `segments`, which all have one and stand in `runs` from `place` on."""
    begins: list[Begin] = []
    known: int | None = None
    for segment in segments:
        owner = segment.owner
        if owner != known:
            assert owner is not None
            begins.append(Begin(segment.start, place, owner))
            known = owner
        if segment.end == runs[place].end:
            place += 1
    return begins
