"""Ends of turns: what ends a turn is a trailer, and messages that the template parts so share no turn."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import pairwise
from typing import Final

from tests.audit.markers import Markers, format_of
from tests.audit.oracle.view import Fault, View
from tests.audit.vocabulary import WORD

from spanparse import Note, Part

_END: Final = re.compile(
    r"<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<turn\|>|<\|END_OF_TURN_TOKEN\|>|[<\[]\|endofturn\|[>\]]|</s>"
    r"|<｜end▁of▁sentence｜>|<\|end_of_text\|>|\[/SYSTEM_PROMPT\]"
)


def check_ends(view: View) -> list[Fault]:
    """Every end of a turn that the template writes for a message; conversations that quote markers are passed over."""
    markers = format_of(view.text)
    said = [field.value for message in view.fields for field in message]
    if markers is None or any(markers.start.search(value) or _END.search(value) for value in said):
        return []
    words = [
        (hit.start(), hit.end())
        for hit in WORD.finditer(view.text)
        if not any(part.start <= hit.start() < part.end for part in view.tools_parts)
    ]
    return [*_kinds(view, markers), *_merged(view, markers, words), *_joined(view, markers, words)]


def _kinds(view: View, markers: Markers) -> list[Fault]:
    """An end is in no header, and in no call if nothing but white space follows it there."""
    found = []
    for message in view.rendering.messages:
        for part in message.parts:
            for end in _END.finditer(view.text, part.start, part.end) if part.kind in ("header", "tool_call") else ():
                behind = view.text[end.end() : part.end]
                starts_again = markers.start.search(behind) or _END.search(behind)
                if not behind.strip() or (part.kind == "header" and not starts_again):
                    found.append(Fault("end", message.index, f"its {part.kind} holds {end[0]} at {end.start()}"))
    return found


def _merged(view: View, markers: Markers, words: list[tuple[int, int]]) -> list[Fault]:
    """Where an end and a start stand between two words of different owners, neither is inside of a turn.

    A start behind tools that stand in front of it is inside of the turn that they begin.
    """
    parts = sorted((p.start, p.end, m.index, p) for m in view.rendering.messages for p in m.parts)
    found = []
    for (_, begin), (end, _) in pairwise(words):
        closing = _END.search(view.text, begin, end)
        start = markers.start.search(view.text, closing.end(), end) if closing else None
        if closing is None or start is None or view.owners[begin - 1] == view.owners[end]:
            continue
        of_tools = {view.owners[part.start] for part in view.tools_parts if begin <= part.start < end}
        if of_tools and of_tools != {view.owners[end]}:
            continue  # they have a turn of their own, or stand in the one before
        if view.owners[closing.start()] == view.owners[start.start()]:
            continue  # one message has two turns, in the second of which it says nothing
        for marker in (closing,) if of_tools else (closing, start):
            owner, part = _at(parts, marker.start())
            if part is not None and part.kind == "delimiter":
                found.append(Fault("merged", owner, f"{marker[0]} at {marker.start()} is a delimiter"))
    return found


def _joined(view: View, markers: Markers, words: list[tuple[int, int]]) -> list[Fault]:
    """Where nothing but white space parts a system text from the next message's, in a turn, the two share it."""
    found = []
    for (_, begin), (end, _) in pairwise(words):
        before, after = view.owners[begin - 1], view.owners[end]
        if min(before, after) < 0 or before == after or view.text[begin:end].strip():
            continue
        leads = view.case.messages[before]["role"] in ("system", "developer")
        if leads and markers.start.search(view.text, 0, begin):
            notes = [view.rendering.messages[index].notes for index in (before, after)]
            if any(Note("merged") not in each for each in notes):
                found.append(Fault("merged", after, f"shares a turn with messages[{before}], its notes are {notes}"))
    return found


def _at(parts: list[tuple[int, int, int, Part]], offset: int) -> tuple[int | None, Part | None]:
    """The message and part at an offset, if there is one."""
    place = bisect_left(parts, (offset + 1,)) - 1
    _, end, owner, part = parts[place] if place >= 0 else (0, 0, None, None)
    return (owner, part) if offset < end else (None, None)
