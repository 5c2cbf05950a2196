"""From owned pieces of a text to a rendering: messages with parts and notes, barriers, the end of the system text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from spanparse.families import Family
from spanparse.ownership.layout import Layouts
from spanparse.ownership.notes import displaced_messages
from spanparse.ownership.owners import Ownership
from spanparse.ownership.parts import preamble_parts, prompt_parts
from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE, Segment, owners_of
from spanparse.ownership.turns import Turns, find_turns
from spanparse.spans import Barrier, BarrierKind, MessageSpan, Piece, Preamble, Rendering
from spanparse.trail import Head, Marking, Trail, rises

_new = tuple.__new__
_START: Final = itemgetter(0)
_Pieces = Sequence[Sequence[Segment]]
_LEADING: Final = ("system", "developer")
_BARRIERS: Final[Mapping[str, BarrierKind]] = {
    "system": "system_start",
    "developer": "developer_start",
    "user": "user_start",
    "assistant": "assistant_start",
    "tool": "tool_start",
}


@dataclass(frozen=True, slots=True)
class Doubts:
    """Why spans may be wrong: a reason for all messages, or for some."""

    everywhere: str | None
    messages: Mapping[int, str]


def assemble(
    marking: Marking, family: Family, ownership: Ownership, doubts: Doubts, head: Head | None, *, has_tools: bool
) -> Rendering:
    """The rendering of `marking`, whose pieces `ownership` tells; messages that `head` covers are taken from there.

    `has_tools` says whether the request has any. Nothing that the caller may change is looked at any more.
    """
    order = owners_of(ownership.pieces)
    generated = [piece for piece, owner in zip(ownership.pieces, order, strict=True) if owner == GENERATION_PROMPT]
    generation = Piece(generated[0][0].start, generated[-1][-1].end) if generated else None
    reason = doubts.everywhere or next((doubts.messages[index] for index in sorted(doubts.messages)), None)

    def described() -> dict[str, Any]:
        return _described(marking, ownership, order, generation, doubts, head, has_tools=has_tools)

    return Rendering.begun(
        described,
        text=marking.text,
        family=family.name,
        exact=reason is None,
        reason=reason,
        generation_prompt=generation,
    )


def _described(
    marking: Marking,
    ownership: Ownership,
    order: Sequence[int],
    generation: Piece | None,
    doubts: Doubts,
    head: Head | None,
    *,
    has_tools: bool,
) -> dict[str, Any]:
    """The fields of a rendering that say what its pieces are."""
    text, pieces = marking.text, ownership.pieces
    shown = [piece for piece, owner in zip(pieces, order, strict=True) if owner >= 0]
    prompt = text[generation.start :] if generation else ""
    known = head.trail.turns.markers[: head.shown] if head else ()
    turns = find_turns(text, shown, ownership.starts, marking.roles, prompt, known)
    if head and not turns.agrees(head.trail.turns, head.message):
        head = None
    messages = _messages(marking, pieces, order, turns, doubts, head)
    preamble = head.trail.preamble if head else _preamble(text, pieces, order, marking.bos)
    system_end = _system_end(pieces, order, messages, preamble)
    barriers = _barriers(pieces, order, marking.roles, system_end, head)
    caller_text = _caller_text(pieces, head)
    trail = None
    if not doubts.everywhere and not doubts.messages and not ownership.rendered and rises(order):
        trail = Trail(marking, ownership, order, turns, messages, preamble, barriers, caller_text, system_end)
    return {
        "preamble": preamble,
        "messages": messages,
        "barriers": barriers,
        "system_end": system_end,
        "caller_text": caller_text,
        "notes": ("tools dropped",) if has_tools and not _shows_tools(pieces) else (),
        "generation_parts": prompt_parts(text, *generation) if generation else (),
        "_trail": trail,
    }


def _messages(
    marking: Marking, pieces: _Pieces, order: Sequence[int], turns: Turns, doubts: Doubts, head: Head | None
) -> tuple[MessageSpan, ...]:
    owned: dict[int, list[Sequence[Segment]]] = {}
    for place in range(head.pieces if head else 0, len(pieces)):
        if order[place] >= 0:
            owned.setdefault(order[place], []).append(pieces[place])
    layouts = Layouts(marking.text, displaced_messages(list(owned)))
    messages = list(head.trail.messages[: head.message]) if head else []
    for index in range(len(messages), len(marking.said)):
        mine = owned.get(index, ())
        parts, notes = layouts.describe(
            index, marking.said[index], mine, opens_turn=index in turns.opens, closes_turn=index in turns.closes
        )
        if index in turns.merged:
            notes = ("merged", *notes)
        reason = doubts.everywhere or doubts.messages.get(index)
        ranges = tuple([_new(Piece, (piece[0].start, piece[-1].end)) for piece in mine])
        messages.append(MessageSpan(index, marking.roles[index], ranges, parts, reason is None, reason, notes))
    return tuple(messages)


def _preamble(text: str, pieces: _Pieces, order: Sequence[int], bos: str) -> Preamble:
    before = [s for piece, owner in zip(pieces, order, strict=True) if owner == PREAMBLE for s in piece]
    if not before:
        return Preamble(0, 0)
    return Preamble(before[0].start, before[-1].end, preamble_parts(before, text, bos))


def _system_end(
    pieces: _Pieces, order: Sequence[int], messages: Sequence[MessageSpan], preamble: Preamble
) -> int | None:
    """The later end of the system texts in front of the conversation and of the tools block, wherever that stands."""
    end = None
    for piece, owner in zip(pieces, order, strict=True):
        if owner == PREAMBLE:
            shown = any(part.kind != "bos" for part in preamble.parts)
        else:
            shown = owner >= 0 and messages[owner].role in _LEADING
            if not shown:
                break
        if shown:
            end = piece[-1].end
    ends = [part.end for message in messages for part in message.parts if part.kind == "tools"]
    for message in messages:
        if message.role not in _LEADING:
            break
        ends.append(message.end or 0)
    return max((*ends, end or 0)) or None


def _barriers(
    pieces: _Pieces, order: Sequence[int], roles: Sequence[str], system_end: int | None, head: Head | None
) -> tuple[Barrier, ...]:
    barriers: list[Barrier] = []
    if head and head.trail.system_end == system_end:
        barriers += head.trail.barriers[: head.pieces - 1]
    for place in range(len(barriers) + 1, len(pieces)):
        offset, owner = pieces[place][0].start, order[place]
        if owner == GENERATION_PROMPT:
            kind: BarrierKind = "generation_prompt"
        elif owner == PREAMBLE:
            kind = "preamble"
        else:
            kind = _BARRIERS.get(roles[owner], "user_start")
        if offset == system_end:
            kind = "system_end"
        barriers.append(_new(Barrier, (offset, kind, owner if owner >= 0 else None, None)))
    return tuple(barriers)


def _caller_text(pieces: _Pieces, head: Head | None) -> tuple[Piece, ...]:
    """Ranges whose characters came from fields other than a role."""
    ranges: list[Piece] = []
    begin = end = -1
    if head:
        border = pieces[head.pieces][0].start
        ranges += head.trail.caller_text[: bisect_left(head.trail.caller_text, border, key=_START)]
        if ranges:
            begin, end = ranges.pop()
            end = min(end, border)
    for segment in chain.from_iterable(pieces[head.pieces if head else 0 :]):
        path, literal, _ = segment.origin
        if literal or path[-1] == "role":
            continue
        if segment.start != end:
            if end > begin:
                ranges.append(_new(Piece, (begin, end)))
            begin = segment.start
        end = segment.end
    if end > begin:
        ranges.append(Piece(begin, end))
    return tuple(ranges)


def _shows_tools(pieces: _Pieces) -> bool:
    return any(segment.is_tools for piece in pieces for segment in piece)
