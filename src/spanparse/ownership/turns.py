"""Turns: which messages share one, which of them opens it and which closes it."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple

from spanparse.ownership.markers import RESULT_ROLES, has_marker, names_role, turns_end
from spanparse.ownership.pieces import Pieces
from spanparse.ownership.segments import Segment, lead_end
from spanparse.spans import LEADING_ROLES


class Turns(NamedTuple):
    """Indices of the messages that open a turn, close one, or share one with another message."""

    opens: frozenset[int]
    closes: frozenset[int]
    merged: frozenset[int]


def find_turns(
    text: str,
    pieces: Pieces,
    shown: Sequence[int],
    owners: Sequence[int],
    starts: frozenset[str],
    roles: Sequence[str],
    generation: str,
) -> Turns:
    """Group the pieces at the places `shown`, whose `owners` are messages, into turns.

    `generation` is the generation prompt's text.

    A piece opens a turn if a start marker or its own role stands in the template's text before what it says. Roles
    whose texts never have one (a Mistral assistant) open a turn of their own, except tool results, and what follows a
    system text without a marker behind it, which go on in the turn they stand in; whatever stands behind the end of a
    turn opens one. A marker in front of tool results behind which an assistant goes on without its own marker stands
    inside the assistant's turn (Gemma 4), unless that is ended in front of it. Without any known marker every message
    is a turn.
    """
    inside: frozenset[str] = frozenset()
    start_of = cache(lambda like, inside: _start_of(text, pieces[like], sorted(starts - inside), inside))
    ends_turn = cache(lambda like: _ends_turn(text, pieces[like]))
    likes = [pieces.like(place) for place in shown]
    first = [start_of(like, inside) for like in likes]
    ends = [ends_turn(like) for like in likes]
    markers = first
    opened = {
        at
        for at in range(1, len(shown))
        if roles[owners[at - 1]] in LEADING_ROLES and _goes_on(text, pieces[shown[at - 1]])
    }
    while True:
        # A marker in front of a tool call may be the call's: only if it names the role, it shows that this has one.
        with_marker: set[str] = set()
        for at, (owner, marker) in enumerate(zip(owners, markers, strict=True)):
            role = roles[owner]
            if not marker or role in with_marker:
                continue
            if not _calls_first(pieces[pieces.like(shown[at])]) or names_role(marker, role):
                with_marker.add(role)
        if any(start in generation for start in starts - inside):
            with_marker.add("assistant")
        never_alone = with_marker | RESULT_ROLES
        alone = {at for at, owner in enumerate(owners) if roles[owner] not in never_alone}
        turns = _group(owners, markers, alone, opened, ends, known=bool(starts - inside))
        found = {
            marker
            for turn in turns
            if (marker := markers[turn[0]])
            and roles[owners[turn[0]]] in RESULT_ROLES
            and any(roles[owners[place]] == "assistant" for place in turn)
            and not (turn[0] and ends[turn[0] - 1])
        }
        if not found:
            break
        inside |= found
        markers = [
            marker if marker not in inside or (at and ends[at - 1]) else start_of(pieces.like(shown[at]), inside)
            for at, marker in enumerate(first)
        ]
    members = [[owners[place] for place in turn] for turn in turns]
    opens = frozenset(turn[0] for turn in members)
    closes = frozenset(turn[-1] for turn in members)
    merged = frozenset(owner for turn in members if len(set(turn)) > 1 for owner in turn)
    return Turns(opens, closes, merged)


def _group(
    owners: Sequence[int],
    markers: Sequence[str | None],
    alone: AbstractSet[int],
    opened: AbstractSet[int],
    ends: Sequence[bool],
    *,
    known: bool,
) -> list[list[int]]:
    """Places of pieces, turn by turn.

    `alone` are those that open a turn without a marker, unless their own message stands in front, or, if they are of
    `opened`, a turn that has a marker. `ends` says of each piece whether it ends its turn.
    """
    turns: list[list[int]] = []
    for place, (owner, marker) in enumerate(zip(owners, markers, strict=True)):
        last = turns[-1] if turns else []
        goes_on = bool(last) and (owners[last[-1]] == owner or (place in opened and markers[last[0]] is not None))
        if not last or marker or not known or (place in alone and not goes_on) or ends[place - 1]:
            turns.append([place])
        else:
            last.append(place)
    return turns


def _calls_first(piece: Sequence[Segment]) -> bool:
    """Whether the first field of a piece other than the role is part of a tool call."""
    fields = (segment.origin.path for segment in piece if not segment.is_frame)
    return "tool_calls" in next(fields, ())


def _start_of(text: str, piece: Sequence[Segment], starts: Sequence[str], inside: AbstractSet[str]) -> str | None:
    """The start marker that stands before the first field other than the role and tools, if any.

    A role that stands there makes a marker of all that the template writes there, if that is not one of `inside`.
    """
    lead = ""
    for segment in piece:
        if not (segment.is_frame or segment.is_tools):
            break
        lead += "\n" if segment.is_tools else text[segment.start : segment.end]
    for start in starts:
        if start in lead:
            return start
    behind = lead_end(piece, 0, with_role=True)
    header = text[piece[0].start : piece[behind - 1].end].strip() if behind else ""
    return header if header not in inside and not all(segment.origin.literal for segment in piece[:behind]) else None


def _ends_turn(text: str, piece: Sequence[Segment]) -> bool:
    """Whether the template's text behind the last field of a piece ends a turn."""
    end = len(piece)
    while end and piece[end - 1].is_own:
        end -= 1
    return any(turns_end(text, segment.start, segment.end) for segment in piece[end:])


def _goes_on(text: str, piece: Sequence[Segment]) -> bool:
    """Whether no marker stands behind the text of a piece."""
    end = len(piece)
    while end and piece[end - 1].is_own:
        end -= 1
    return not any(has_marker(text, s.start, s.end) for s in piece[end:])
