"""Turns: which messages share one, which of them opens it and which closes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spanparse.marked import Marked
from spanparse.owners import Segment


@dataclass(frozen=True, slots=True)
class Turns:
    """Indices of the messages that open a turn, close one, or share one with another message."""

    opens: frozenset[int]
    closes: frozenset[int]
    merged: frozenset[int]


def find_turns(
    text: Marked, pieces: Sequence[Sequence[Segment]], starts: frozenset[str], roles: Sequence[str], generation: str
) -> Turns:
    """Group message pieces, given in text order, into turns; `generation` is the generation prompt's text.

    A piece opens a turn if a start marker stands in the template's text before its first field. Roles whose texts never
    have one (a Mistral assistant) open a turn of their own, except tool results, which go on in the turn they stand in.
    Without any known marker every message is a turn.
    """
    started = [_has_start(text, piece, starts) for piece in pieces]
    owners = [_owner(piece) for piece in pieces]
    # A marker in front of a tool call may be the call's, not the turn's: it does not show that the role has markers.
    marked = [piece for piece, has in zip(pieces, started, strict=True) if has and not _calls_first(piece)]
    with_marker = {roles[_owner(piece)] for piece in marked}
    if any(start in generation for start in starts):
        with_marker.add("assistant")
    turns: list[list[int]] = []
    for owner, has in zip(owners, started, strict=True):
        headerless = roles[owner] not in with_marker and roles[owner] != "tool"
        continues = bool(turns) and turns[-1][-1] == owner
        if not turns or has or not starts or (headerless and not continues):
            turns.append([owner])
        else:
            turns[-1].append(owner)
    opens = frozenset(turn[0] for turn in turns)
    closes = frozenset(turn[-1] for turn in turns)
    merged = frozenset(owner for turn in turns if len(set(turn)) > 1 for owner in turn)
    return Turns(opens, closes, merged)


def _owner(piece: Sequence[Segment]) -> int:
    owner = piece[0].owner
    assert owner is not None
    return owner


def _calls_first(piece: Sequence[Segment]) -> bool:
    """Whether the first field of a piece other than the role is part of a tool call."""
    fields = (s.origin.path for s in piece if not s.origin.literal and s.origin.path[-1] != "role")
    return "tool_calls" in next(fields, ())


def _has_start(text: Marked, piece: Sequence[Segment], starts: frozenset[str]) -> bool:
    """Whether a start marker stands before the first field other than the role."""
    end = piece[0].start
    for segment in piece:
        if not segment.origin.literal and segment.origin.path[-1] != "role":
            break
        end = segment.end
    return any(str.find(text, start, piece[0].start, end) >= 0 for start in starts)
