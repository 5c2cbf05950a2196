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
        segment = segments[at]
        if 0 < at < len(segments) - 1 and not segment.origin.literal and segment.origin.path[-1] == "role":
            around, owner = _around(segments, at), segment.owner
            if around is not None and owner is not None and claimed:
                behind = _header(text, claimed, segments, at, around) if owner > around else None
                if behind is None and owner < around:
                    behind = _closer(text, claimed, segments, at, around)
                if behind is not None:
                    at = behind
                    continue
        claimed.append(segment)
        at += 1
    return claimed


def _around(segments: Sequence[Segment], place: int) -> int | None:
    """Whose words stand on both sides of the role at `place`, if they are another message's."""
    before, after = segments[place - 1], segments[place + 1]
    if not (before.is_own and after.is_own) or before.owner != after.owner or before.owner == segments[place].owner:
        return None
    return before.owner if before.owner is not None and before.owner >= 0 else None


def _header(text: str, claimed: list[Segment], segments: list[Segment], place: int, around: int) -> int | None:
    """Gives the header that holds the role at `place` to its message, if nothing else stands in front of that."""
    owner = segments[place].owner
    behind = place + 1
    while behind < len(segments) and segments[behind].owner == around and segments[behind].is_own:
        behind += 1
    if owner is None or behind == len(segments) or segments[behind].owner != owner:
        return None
    front = claimed.pop()
    border = closers_end(text, front.start, front.end)
    while front.start < border < front.end and text[border].isspace():
        border += 1
    claimed += split_at([front], border, around, owner)
    for segment in segments[place:behind]:
        segment.owner = owner
    claimed += segments[place:behind]
    return behind


def _closer(text: str, claimed: list[Segment], segments: list[Segment], place: int, around: int) -> int | None:
    """Gives the marker that holds the role at `place` to its message, if that ends there and the marker closes it."""
    owner, front, after = segments[place].owner, claimed[-1], segments[place + 1]
    brackets = _BRACKETS.match(text, after.start, after.end)
    if owner is None or brackets is None or len(claimed) < 2 or claimed[-2].owner != owner:
        return None
    if not is_closing(text[front.start : brackets.end()].strip()):
        return None
    front.owner = owner
    claimed.append(segments[place])
    claimed += split_at([after], brackets.end(), owner, around)
    return place + 2
