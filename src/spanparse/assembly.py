"""From owned pieces of a text to a rendering: messages with parts and notes, barriers, the end of the system text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from spanparse.families import Family
from spanparse.ownership.layout import Layouts
from spanparse.ownership.notes import displaced_messages
from spanparse.ownership.parts import preamble_parts, prompt_parts
from spanparse.ownership.pieces import Ownership, Pieces
from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE
from spanparse.ownership.turns import Turns, find_turns
from spanparse.spans import (
    LEADING_ROLES,
    Barrier,
    BarrierKind,
    MessageSpan,
    Note,
    NoteKind,
    Piece,
    Preamble,
    Reason,
    Rendering,
)
from spanparse.trail import Marking, Trail, messages_changed, pieces_kept

_new = tuple.__new__
_START: Final = itemgetter(0)
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

    everywhere: Reason | None
    messages: Mapping[int, Reason]


def assemble(
    marking: Marking, family: Family, ownership: Ownership, doubts: Doubts, trail: Trail | None, *, has_tools: bool
) -> Rendering:
    """The rendering of `marking`, whose pieces `ownership` tells; what is as in `trail` is taken over from there.

    `has_tools` says whether the request has any. Nothing that the caller may change is looked at any more.
    """
    last = ownership.begins[-1] if ownership.begins else None
    is_asked = last is not None and last.owner == GENERATION_PROMPT
    generation = Piece(last.offset, len(marking.text)) if last is not None and is_asked else None
    reason = doubts.everywhere or next((doubts.messages[index] for index in sorted(doubts.messages)), None)

    def described() -> dict[str, Any]:
        return _described(marking, ownership, generation, doubts, trail, has_tools=has_tools)

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
    generation: Piece | None,
    doubts: Doubts,
    trail: Trail | None,
    *,
    has_tools: bool,
) -> dict[str, Any]:
    """The fields of a rendering that say what its pieces are."""
    text, roles, order, pieces = marking.text, marking.roles, ownership.order, Pieces(marking.text, ownership)
    ranges = ownership.ranges()
    kept = pieces_kept(trail, marking, ownership) if trail else 0
    shown = [place for place, owner in enumerate(order) if owner >= 0]
    owners = [order[place] for place in shown]
    known = trail.turns.of_first(bisect_left(shown, kept)) if trail else ()
    prompt = text[generation.start :] if generation else ""
    turns = find_turns(text, pieces, shown, owners, ownership.starts, roles, prompt, known)
    displaced = displaced_messages(list(dict.fromkeys(owners)))
    taken: Mapping[int, MessageSpan] = {}
    if trail:
        changed = messages_changed(trail, marking, ownership, turns, displaced, kept) | doubts.messages.keys()
        taken = {index: span for index, span in enumerate(trail.messages) if index not in changed}
    messages = _messages(marking, pieces, order, ranges, turns, displaced, doubts, taken)
    preamble = _preamble(marking, pieces, order)
    system_end = _system_end(order, ranges, messages, preamble)
    barriers = _barriers(ownership, roles, system_end, trail, kept)
    caller_text = _caller_text(ownership, trail, kept)
    new_trail = None
    if not doubts.everywhere and not doubts.messages:
        new_trail = Trail(marking, ownership, turns, displaced, messages, preamble, barriers, caller_text, system_end)
    return {
        "preamble": preamble,
        "messages": messages,
        "barriers": barriers,
        "system_end": system_end,
        "caller_text": caller_text,
        "notes": (Note("dropped", "tools"),) if has_tools and not _shows_tools(ownership) else (),
        "generation_parts": prompt_parts(text, *generation) if generation else (),
        "_trail": new_trail,
    }


def _messages(
    marking: Marking,
    pieces: Pieces,
    order: Sequence[int],
    ranges: Sequence[Piece],
    turns: Turns,
    displaced: Mapping[int, NoteKind],
    doubts: Doubts,
    taken: Mapping[int, MessageSpan],
) -> tuple[MessageSpan, ...]:
    owned: dict[int, list[int]] = {}
    for place, owner in enumerate(order):
        if owner >= 0 and owner not in taken:
            owned.setdefault(owner, []).append(place)
    layouts = Layouts(marking.text, pieces, displaced)
    messages = []
    for index, said in enumerate(marking.said):
        if index in taken:
            messages.append(taken[index])
            continue
        places = owned.get(index, ())
        parts, notes = layouts.describe(
            index, said, places, opens_turn=index in turns.opens, closes_turn=index in turns.closes
        )
        if index in turns.merged:
            notes = (Note("merged"), *notes)
        reason = doubts.everywhere or doubts.messages.get(index)
        mine = tuple([ranges[place] for place in places])
        messages.append(MessageSpan(index, marking.roles[index], mine, parts, reason is None, reason, notes))
    return tuple(messages)


def _preamble(marking: Marking, pieces: Pieces, order: Sequence[int]) -> Preamble:
    before = [segment for place, owner in enumerate(order) if owner == PREAMBLE for segment in pieces[place]]
    if not before:
        return Preamble(0, 0)
    return Preamble(before[0].start, before[-1].end, preamble_parts(before, marking.text, marking.bos))


def _system_end(
    order: Sequence[int], ranges: Sequence[Piece], messages: Sequence[MessageSpan], preamble: Preamble
) -> int | None:
    """The later end of the system texts in front of the conversation and of the tools block, wherever that stands."""
    end = None
    for place, owner in enumerate(order):
        if owner == PREAMBLE:
            shown = any(part.kind != "bos" for part in preamble.parts)
        else:
            shown = owner >= 0 and messages[owner].role in LEADING_ROLES
            if not shown:
                break
        if shown:
            end = ranges[place].end
    ends = [part.end for message in messages for part in message.parts if part.kind == "tools"]
    for message in messages:
        if message.role not in LEADING_ROLES:
            break
        ends.append(message.end or 0)
    return max((*ends, end or 0)) or None


def _barriers(
    ownership: Ownership, roles: Sequence[str], system_end: int | None, trail: Trail | None, kept: int
) -> tuple[Barrier, ...]:
    barriers: list[Barrier] = []
    if trail and trail.system_end == system_end:
        barriers += trail.barriers[: max(0, kept - 1)]
    for offset, _, owner in ownership.begins[len(barriers) + 1 :]:
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


def _caller_text(ownership: Ownership, trail: Trail | None, kept: int) -> tuple[Piece, ...]:
    """Ranges whose characters came from fields other than a role."""
    ranges: list[Piece] = []
    begin = end = -1
    place = 0
    if trail and kept:
        border, place, _ = ownership.begins[kept]
        ranges += trail.caller_text[: bisect_left(trail.caller_text, border, key=_START)]
        if ranges:
            begin, end = ranges.pop()
            end = min(end, border)
    for start, stop, (path, literal, _), _ in ownership.runs[place:]:
        if literal or path[-1] == "role":
            continue
        if start != end:
            if end > begin:
                ranges.append(_new(Piece, (begin, end)))
            begin = start
        end = stop
    if end > begin:
        ranges.append(Piece(begin, end))
    return tuple(ranges)


def _shows_tools(ownership: Ownership) -> bool:
    return any(path and path[0] == "tools" for _, _, (path, _, _), _ in ownership.runs)
