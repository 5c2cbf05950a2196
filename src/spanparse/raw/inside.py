"""What stands inside the content of a turn: reasoning, tool calls, text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from spanparse.analysis import Analysis, Reasoning, ToolCalls
from spanparse.analysis.affixes import CONTROL
from spanparse.raw.turns import Turn
from spanparse.spans import Note, Part, PartKind

_ID: Final = "{id}"
_LONGEST_NAME: Final = 200


def parts_of(text: str, turn: Turn, analysis: Analysis) -> tuple[Part, ...]:
    """The parts that tile a turn."""
    parts = [Part("header", turn.start, turn.inner)] if turn.inner > turn.start else []
    at = turn.inner
    if turn.role == "assistant":
        reasoning = list(_reasoning(text, turn, analysis.reasoning))
        parts += reasoning
        at = reasoning[-1].end if reasoning else at
        called = False
        for call in _calls(text, at, turn, analysis.tool_calls):
            parts += _text_parts(text, turn, at, call.start, analysis.tool_calls)
            parts.append(call)
            at, called = call.end, True
        parts += _text_parts(text, turn, at, turn.close, analysis.tool_calls if called else None)
    else:
        parts += _text_parts(text, turn, at, turn.close, None)
    if turn.end > max(at, turn.close):
        parts.append(Part("trailer", turn.close, turn.end))
    return tuple(parts)


def lookalikes(text: str, turn: Turn, analysis: Analysis) -> Iterator[Note]:
    """Notes on what looks like a control token where the template writes none."""
    known = set(analysis.control_tokens) if turn.role in ("system", "developer", "assistant") else set()
    for medium in analysis.media:
        known.update(CONTROL.findall(medium.placeholder or ""))
    noted = " ".join(note.field or "" for note in turn.notes)
    for token in dict.fromkeys(CONTROL.findall(text, turn.inner, turn.close)):
        if token not in known and token not in noted:
            yield Note("looks-like-token", token)


def _text_parts(text: str, turn: Turn, start: int, end: int, calls: ToolCalls | None) -> Iterator[Part]:
    """A stretch of text; beside calls, what the template writes around and between them is told apart."""
    frame = (calls.section_start, calls.between or "", calls.section_end) if calls else ()
    for marker in (marker.strip() for marker in frame):
        stretch = text[start:end]
        if marker and stretch.rstrip().endswith(marker):
            border = start + stretch.rindex(marker)
            if text[start:border].strip():
                yield Part("content", start, border)
                start = border
            yield Part("delimiter", start, end)
            return
    if end > start:
        kind: PartKind = "tool_result" if turn.role == "tool" else "content"
        yield Part("delimiter" if calls and not text[start:end].strip() else kind, start, end)


def _reasoning(text: str, turn: Turn, found: Reasoning | None) -> Iterator[Part]:
    """Reasoning at the beginning of the content, its start marker there or at the end of the header."""
    start, end = (found.start or "").strip() if found else "", (found.end or "").strip() if found else ""
    if not end:
        return
    lead = len(text[turn.inner : turn.close]) - len(text[turn.inner : turn.close].lstrip())
    begin = turn.inner + lead
    if start and text.startswith(start, begin):
        begin += len(start)
    elif not start or not text[turn.start : turn.inner].rstrip().endswith(start):
        return
    stop = text.find(end, begin, turn.close)
    if stop < 0:
        return
    behind = stop + len(end)
    # White space around the markers is the template's.
    begin += len(text[begin:stop]) - len(text[begin:stop].lstrip())
    stop = begin + len(text[begin:stop].rstrip())
    behind += len(text[behind : turn.close]) - len(text[behind : turn.close].lstrip())
    if begin > turn.inner:
        yield Part("delimiter", turn.inner, begin)
    if stop > begin:
        yield Part("reasoning", begin, stop)
    yield Part("delimiter", stop, behind)


class _Found(NamedTuple):
    start: int
    end: int


def _calls(text: str, at: int, turn: Turn, markers: ToolCalls | None) -> Iterator[Part]:
    """Tool calls with their names and arguments, one after another; what ends the last may be what closes the turn."""
    if markers is None or not markers.start.strip() or not markers.end.strip():
        return
    index, limit = 0, turn.close
    while (start := _find(text, markers.start.strip(), at, limit)) is not None:
        separator = _find(text, markers.separator, start.end, min(limit, start.end + _LONGEST_NAME))
        if separator is None:
            return
        inside = _json_end(text, separator.end) if markers.arguments == "json" else separator.end
        end = _find(text, markers.end.strip(), inside, limit)
        if end is None and text[limit : turn.end].strip() == markers.end.strip():
            end = _Found(limit, turn.end)
        if end is None:
            return
        children = (Part("name", start.end, separator.start), Part("arguments", separator.end, end.start))
        shown = tuple(child for child in children if child.end > child.start)
        yield Part("tool_call", start.start, end.end, None, index, shown)
        at, index = end.end, index + 1


def _json_end(text: str, at: int) -> int:
    """Where the JSON value that begins at `at` ends, `at` if none does."""
    try:
        return json.JSONDecoder().raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return at


def _find(text: str, marker: str, at: int, limit: int) -> _Found | None:
    """Where `marker` stands; the id of a call may be anything short."""
    first, *rest = marker.split(_ID)
    start = text.find(first, at, limit)
    if start < 0:
        return None
    end = start + len(first)
    for piece in rest:
        found = text.find(piece, end, min(limit, end + _LONGEST_NAME))
        if found < 0:
            return None
        end = found + len(piece)
    return _Found(start, end)
