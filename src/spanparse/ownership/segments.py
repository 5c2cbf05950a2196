"""Stretches of a rendered text with their owners."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, count
from operator import attrgetter, le, ne
from typing import Final

from spanparse.marks.marked import Runs
from spanparse.marks.origin import GENERATION, Origin, Run

PREAMBLE: Final = -1
GENERATION_PROMPT: Final = -2


@dataclass(frozen=True, slots=True)
class Segment:
    """Characters [start, end) of one run, with their owner: a message index, `PREAMBLE` or `GENERATION_PROMPT`.

    `rule` names the rule that gave them to it, if it is not whom they were written for.
    """

    start: int
    end: int
    origin: Origin
    source: int
    owner: int | None
    rule: str = ""

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


def split_at(segments: Iterable[Segment], borders: Sequence[int]) -> list[Segment]:
    """`segments` with those cut that any of `borders`, which are sorted, stands in."""
    result = []
    for segment in segments:
        for border in borders[bisect_right(borders, segment.start) : bisect_left(borders, segment.end)]:
            result.append(replace(segment, end=border))
            segment = replace(segment, start=border, source=-1)
        result.append(segment)
    return result


def is_field(run: Run) -> bool:
    """Whether a run shows what a message says; one without characters may be given to another message."""
    start, end, (path, literal, message), _ = run
    return not literal and message is not None and start < end and path[-1] != "role"


def first_owners(runs: Runs) -> list[int | None]:
    """The owners that runs show by themselves.

    What stands inside the text that the template writes for one message, such as a variable, is that message's too.
    """
    owners = [GENERATION_PROMPT if run[2] is GENERATION else run[2][2] for run in runs]
    for begin, end in gaps(owners):
        owner = owners[begin - 1] if begin else None
        if owner is None or end == len(owners) or owners[end] != owner:
            continue
        if all(
            literal and not (path and path[0] == "tools") for _, _, (path, literal, _), _ in runs[begin - 1 : end + 1]
        ):
            owners[begin:end] = [owner] * (end - begin)
    return owners
