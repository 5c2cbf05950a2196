"""Stretches of a rendered text with their owners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import attrgetter, le, ne
from typing import Final

from spanparse.marks.origin import Origin

PREAMBLE: Final = -1
GENERATION_PROMPT: Final = -2


@dataclass(slots=True)
class Segment:
    """Characters [start, end) of one run, with their owner: a message index, `PREAMBLE` or `GENERATION_PROMPT`."""

    start: int
    end: int
    origin: Origin
    source: int
    owner: int | None

    @property
    def is_tools(self) -> bool:
        """Text of the tools block."""
        path = self.origin.path
        return bool(path) and path[0] == "tools"

    @property
    def is_own(self) -> bool:
        """Text of the template's own, tools and what it writes between them excepted."""
        return self.origin.literal and not self.is_tools

    @property
    def is_of_part(self) -> bool:
        """Text written for one part of a content that is a list."""
        path = self.origin.path
        return len(path) > 3 and path[2] == "content" and isinstance(path[3], int)

    @property
    def is_frame(self) -> bool:
        """Template text, or the role that a template builds its header from."""
        return self.origin.literal or self.origin.path[-1] == "role"


get_owner: Final = attrgetter("owner")
"""The owner of a segment."""


def owner_of(piece: Sequence[Segment]) -> int:
    """The owner of a piece: segments of one owner that touch each other, each of which has one."""
    owner = piece[0].owner
    assert owner is not None
    return owner


def changes_of(owners: Sequence[int | None]) -> list[int]:
    """The places whose owner is another than the one before."""
    return [*compress(count(1), map(ne, owners, owners[1:]))]


def fall(owners: Iterable[int | None]) -> bool:
    """Whether any message has text behind that of a later one; the generation prompt and what has no owner aside."""
    known = [owner for owner in owners if owner is not None and owner != GENERATION_PROMPT]
    return not all(map(le, known, known[1:]))


def gaps(owners: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """The places [begin, end) in a row that have no owner."""
    if None not in owners:
        return
    end = 0
    for begin in [place for place, owner in enumerate(owners) if owner is None]:
        if begin < end:
            continue
        end = begin
        while end < len(owners) and owners[end] is None:
            end += 1
        yield begin, end


def lead_end(segments: Sequence[Segment], place: int, *, with_role: bool) -> int:
    """The place behind the template's text that the owner at `place` begins with, there or further on.

    `with_role` counts a role among that text, since templates build headers from it.
    """
    owner = segments[place].owner
    for at in range(place, len(segments)):
        segment = segments[at]
        path, literal, _ = segment.origin
        if segment.owner != owner or not (literal or (with_role and path[-1] == "role")):
            return at
    return len(segments)


def split_at(gap: list[Segment], border: int, before: int, after: int) -> list[Segment]:
    """`gap` cut at `border`: what lies before it is owned by `before`, the rest by `after`."""
    result = []
    for segment in gap:
        if segment.start < border < segment.end:
            head = Segment(segment.start, border, segment.origin, segment.source, before)
            tail = Segment(border, segment.end, segment.origin, -1, after)
            result += [head, tail]
        else:
            segment.owner = before if segment.end <= border else after
            result.append(segment)
    return result
