"""From owned pieces of a text to a rendering: messages with parts and notes, barriers, the end of the system text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

from spanparse.deferred import Deferred
from spanparse.ownership.layout import Layouts
from spanparse.ownership.notes import displaced_messages, message_notes
from spanparse.ownership.parts import preamble_parts, prompt_parts
from spanparse.ownership.pieces import Ownership, Pieces
from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE
from spanparse.ownership.turns import Turns, find_turns
from spanparse.spans import (
    LEADING_ROLES,
    ROLE_STARTS,
    Barrier,
    BarrierKind,
    MessageSpan,
    Note,
    NoteKind,
    Piece,
    Preamble,
    Reason,
    Rendering,
    Spans,
)


@dataclass(frozen=True, slots=True)
class Doubts:
    """Why spans may be wrong: a reason for all messages, or for some."""

    everywhere: Reason | None
    messages: Mapping[int, Reason]


@dataclass(frozen=True, slots=True)
class Marking:
    """A text and what it was made of: `said` is a copy of the messages."""

    text: str
    bos: str
    roles: Sequence[str]
    said: Sequence[dict[str, Any]]
    has_tools: bool


def assemble(
    marking: Marking,
    family: str,
    ownership: Ownership,
    doubts: Doubts,
    caller_text: Callable[[], tuple[Piece, ...]],
) -> Rendering:
    """The rendering of `marking`, whose pieces `ownership` tells.

    `caller_text` is called with the first of the spans. Nothing that the caller may change is looked at any more.
    """
    text, last = marking.text, ownership.begins[-1] if ownership.begins else None
    asked = last is not None and last.owner == GENERATION_PROMPT
    generation = Piece(last.offset, len(text)) if last is not None and asked else None
    reason = doubts.everywhere or next((doubts.messages[index] for index in sorted(doubts.messages)), None)
    return Rendering(
        text, family, reason, generation, Deferred(partial(_spans, marking, ownership, generation, doubts, caller_text))
    )


def _spans(
    marking: Marking,
    ownership: Ownership,
    generation: Piece | None,
    doubts: Doubts,
    caller_text: Callable[[], tuple[Piece, ...]],
) -> Spans:
    text, roles, order, pieces = marking.text, marking.roles, ownership.order, Pieces(marking.text, ownership)
    ranges = ownership.ranges()
    shown = [place for place, owner in enumerate(order) if owner >= 0]
    owners = [order[place] for place in shown]
    prompt = text[generation.start :] if generation else ""
    turns = find_turns(text, pieces, shown, owners, ownership.starts, roles, prompt)
    displaced = displaced_messages(list(dict.fromkeys(owners)))
    messages = _messages(marking, pieces, order, ranges, turns, displaced, doubts)
    preamble = _preamble(marking, pieces, order)
    system_end = _system_end(order, ranges, messages, preamble)
    return Spans(
        preamble,
        messages,
        _barriers(ownership, roles, system_end),
        system_end,
        caller_text(),
        (Note("dropped", "tools"),) if marking.has_tools and not _shows_tools(ownership) else (),
        prompt_parts(text, *generation) if generation else (),
    )


def _messages(
    marking: Marking,
    pieces: Pieces,
    order: Sequence[int],
    ranges: Sequence[Piece],
    turns: Turns,
    displaced: Mapping[int, NoteKind],
    doubts: Doubts,
) -> tuple[MessageSpan, ...]:
    owned: dict[int, list[int]] = {}
    for place, owner in enumerate(order):
        if owner >= 0:
            owned.setdefault(owner, []).append(place)
    layouts = Layouts(marking.text, pieces)
    messages = []
    for index, said in enumerate(marking.said):
        places = owned.get(index, ())
        parts = layouts.parts(index, said, places, opens_turn=index in turns.opens, closes_turn=index in turns.closes)
        runs = [run for place in places for run in pieces.runs(place) if run[0] < run[1]]
        notes = message_notes(index, said, runs, displaced)
        if index in turns.merged:
            notes.insert(0, Note("merged"))
        reason = doubts.everywhere or doubts.messages.get(index)
        mine = tuple([ranges[place] for place in places])
        messages.append(MessageSpan(index, marking.roles[index], mine, parts, reason, tuple(notes)))
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
    ends += [m.end or 0 for m in takewhile(lambda message: message.role in LEADING_ROLES, messages)]
    return max((*ends, end or 0)) or None


def _barriers(ownership: Ownership, roles: Sequence[str], system_end: int | None) -> tuple[Barrier, ...]:
    barriers = []
    for offset, _, owner in ownership.begins[1:]:
        if owner == GENERATION_PROMPT:
            kind: BarrierKind = "generation_prompt"
        elif owner == PREAMBLE:
            kind = "preamble"
        else:
            kind = ROLE_STARTS.get(roles[owner], "user_start")
        if offset == system_end:
            kind = "system_end"
        barriers.append(Barrier(offset, kind, owner if owner >= 0 else None))
    return tuple(barriers)


def _shows_tools(ownership: Ownership) -> bool:
    return any(path and path[0] == "tools" for _, _, (path, _, _), _ in ownership.runs)
