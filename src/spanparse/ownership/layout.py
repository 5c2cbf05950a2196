"""Parts and notes of messages, worked out once for each shape that messages have.

A long conversation has few shapes: which fields of a message stand in its text, and in which order. Messages of one
shape have the same parts at other offsets, and the same notes as long as their texts are shown whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from spanparse.ownership.notes import TEXT_FIELDS, arguments_as_text, message_notes
from spanparse.ownership.parts import end_apart, message_parts
from spanparse.ownership.segments import Segment
from spanparse.spans import Part, PartKind

_Shape = tuple[object, ...]
_new: Final = tuple.__new__
# How a segment shows a field, or nothing of it: a text in one of four ways.
_FIELD, _EMPTY, _WHOLE, _TRIMMED, _CUT, _COMPUTED = "field", "empty", "whole", "trimmed", "cut", "computed"


class _Place(NamedTuple):
    """A part of a shape: from segment `first` to `last`, both counted in the message's segments."""

    first: int
    last: int
    kind: PartKind
    source: str | None
    index: int | None  # type: ignore[assignment] # nobody asks a place for the place of a value
    children: tuple[_Place, ...]


class _Layout(NamedTuple):
    """What messages of one shape have in common."""

    places: tuple[_Place, ...]
    notes: tuple[str, ...]


@final
class Layouts:
    """The shapes met in one rendering of `text`. `displaced` is what `message_notes` takes."""

    def __init__(self, text: str, displaced: Mapping[int, str]) -> None:
        self._text = text
        self._displaced = displaced
        self._known: dict[_Shape, _Layout] = {}

    def describe(
        self,
        index: int,
        message: dict[str, Any],
        pieces: Sequence[Sequence[Segment]],
        *,
        opens_turn: bool,
        closes_turn: bool,
    ) -> tuple[tuple[Part, ...], tuple[str, ...]]:
        """The parts and notes of message `index`, which owns `pieces`."""
        shape = None
        segments = pieces[0] if len(pieces) == 1 else [segment for piece in pieces for segment in piece]
        flat, ends = end_apart(self._text, segments, index, message)
        if len(pieces) == 1 and index not in self._displaced:
            shape = _shape(index, message, flat, ends, opens_turn, closes_turn)
            layout = self._known.get(shape) if shape is not None else None
            if layout is not None:
                return _parts(layout.places, flat), layout.notes
        parts = message_parts(flat, index, message, ends, opens_turn=opens_turn, closes_turn=closes_turn)
        shown = [segment for segment in flat if segment.start < segment.end]
        notes = tuple(message_notes(index, message, shown, self._displaced))
        if shape is not None:
            self._known[shape] = _layout(flat, parts, notes)
        return parts, notes


def _shape(
    index: int, message: dict[str, Any], segments: Sequence[Segment], ends: int, opens_turn: bool, closes_turn: bool
) -> _Shape | None:
    """What parts and notes depend on besides offsets; None where that is more than a shape says."""
    calls = tuple(map(len, arguments_as_text(message))) if message.get("tool_calls") else ()
    shape: list[object] = [opens_turn, closes_turn, message.get("role"), calls, len(segments) - ends]
    for name in TEXT_FIELDS:
        value = message.get(name)
        if value is None or not value:
            shape.append(None)
        elif type(value) is str:
            shape.append(value.isspace())
        else:
            return None
    cut: list[object] = []
    for segment in segments:
        path, literal, owner = segment.origin
        if owner == index:
            field = path[2:]
            shape.append(field)
            if literal:
                continue
            shown = _FIELD if segment.start < segment.end else _EMPTY
            if len(field) == 1 and field[0] in TEXT_FIELDS:
                shown = _shown(segment, message[field[0]])
                if shown is _CUT or shown is _TRIMMED:
                    cut.append(field)
            shape.append(shown)
        elif literal and (not path or path[0] != "tools"):
            shape.append(None)
        else:
            return None
    # What two pieces of a text leave out together takes a closer look.
    return None if any(shape.count(field) > 1 for field in cut) else tuple(shape)


def _shown(segment: Segment, value: str) -> str:
    """How a segment shows a text field."""
    source, size = segment.source, segment.end - segment.start
    if source < 0:
        return _COMPUTED
    if size == len(value):
        return _WHOLE
    before, after = value[source - 1 : source], value[source + size : source + size + 1]
    # Looked at first: to copy the text for each of thousands of segments would take the square of its length.
    if not (before + after).isspace():
        return _CUT
    left_out = value[:source] + value[source + size :]
    return _TRIMMED if left_out.isspace() else _CUT


def _layout(segments: Sequence[Segment], parts: Sequence[Part], notes: tuple[str, ...]) -> _Layout:
    firsts = {segment.start: place for place, segment in enumerate(segments)}
    lasts = {segment.end: place for place, segment in enumerate(segments)}
    return _Layout(_places(parts, firsts, lasts), notes)


def _places(parts: Sequence[Part], firsts: Mapping[int, int], lasts: Mapping[int, int]) -> tuple[_Place, ...]:
    return tuple(
        _Place(firsts[start], lasts[end], kind, source, index, _places(children, firsts, lasts))
        for kind, start, end, source, index, children in parts
    )


def _parts(places: Sequence[_Place], segments: Sequence[Segment]) -> tuple[Part, ...]:
    parts = []
    for first, last, kind, source, index, children in places:
        inner = _parts(children, segments) if children else ()
        parts.append(_new(Part, (kind, segments[first].start, segments[last].end, source, index, inner)))
    return tuple(parts)
