"""Borders written with another message's role: a header for the next one, a closer for the one before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from spanparse.ownership.markers import closers_end, is_closing
from spanparse.ownership.segments import Segment, split_at

# What ends a marker behind a role.
_BRACKETS: Final = re.compile(r"[|｜>\])}]+")


def claim_roles(text: str, segments: list[Segment]) -> list[Segment]:
    """`segments` with the roles that stand in a neighbour's words, and the marker around each, given to whom they name.

    At the end of a turn that is all behind what ends it; in front of the next turn, a marker that closes something.
    """
    claimed: list[Segment] = []
    at = 0
    while at < len(segments):
        behind = _claim(text, claimed, segments, at) if _is_foreign(segments, at) else None
        if behind is None:
            claimed.append(segments[at])
        at = behind or at + 1
    return claimed


def _is_foreign(segments: Sequence[Segment], place: int) -> bool:
    """Whether a role stands at `place` with another message's words on both sides."""
    segment = segments[place]
    if segment.origin.literal or segment.origin.path[-1] != "role" or not 0 < place < len(segments) - 1:
        return False
    before, after = segments[place - 1], segments[place + 1]
    return before.is_own and after.is_own and before.owner == after.owner != segment.owner


def _claim(text: str, claimed: list[Segment], segments: list[Segment], place: int) -> int | None:
    """Gives what belongs to the role at `place` to its message; the place behind that, None if nothing does."""
    owner, around = segments[place].owner, claimed[-1].owner
    if owner is None or around is None or around < 0:
        return None
    if owner > around:
        return _header(text, claimed, segments, place, around, owner)
    return _closer(text, claimed, segments, place, around, owner)


def _header(
    text: str, claimed: list[Segment], segments: list[Segment], place: int, around: int, owner: int
) -> int | None:
    """Gives the header that holds the role at `place` to its `owner`, if nothing else stands in front of that."""
    behind = place + 1
    while behind < len(segments) and segments[behind].owner == around and segments[behind].is_own:
        behind += 1
    if behind == len(segments) or segments[behind].owner != owner:
        return None
    front = claimed.pop()
    claimed += split_at([front], closers_end(text, front.start, front.end), around, owner)
    for segment in segments[place:behind]:
        segment.owner = owner
    claimed += segments[place:behind]
    return behind


def _closer(
    text: str, claimed: list[Segment], segments: list[Segment], place: int, around: int, owner: int
) -> int | None:
    """Gives the marker that holds the role at `place` to its `owner`, if that ends there and the marker closes it."""
    front, after = claimed[-1], segments[place + 1]
    brackets = _BRACKETS.match(text, after.start, after.end)
    if brackets is None or len(claimed) < 2 or claimed[-2].owner != owner:
        return None
    if not is_closing(text[front.start : brackets.end()].strip()):
        return None
    front.owner = owner
    claimed.append(segments[place])
    claimed += split_at([after], brackets.end(), owner, around)
    return place + 2
