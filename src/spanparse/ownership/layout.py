"""Parts and notes of messages, worked out once for each shape that messages have.

A long conversation has few shapes: which fields of a message stand in its text, and in which order. Messages of one
shape have the same parts at other offsets, and the same notes as long as their texts are shown whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from spanparse.marks.origin import Run
from spanparse.ownership.notes import TEXT_FIELDS, arguments_as_text, message_notes
from spanparse.ownership.parts import end_apart, message_parts
from spanparse.ownership.pieces import Pieces
from spanparse.spans import Note, NoteKind, Part, PartKind

_Shape = tuple[object, ...]
_new: Final = tuple.__new__
# How a run shows a text field.
_WHOLE, _TRIMMED, _CUT, _COMPUTED = "whole", "trimmed", "cut", "computed"


class _Place(NamedTuple):
    """A part of a shape.

    It begins `further` characters behind the beginning of the run at `first`, counted in the piece, and ends `beyond`
    characters behind that of the run at `last`.
    """

    first: int
    further: int
    last: int
    beyond: int
    kind: PartKind
    source: str | None
    index: int | None  # type: ignore[assignment] # nobody asks a place for the place of a value
    children: tuple[_Place, ...]


class _Layout(NamedTuple):
    """What messages of one shape have in common."""

    places: tuple[_Place, ...]
    notes: tuple[Note, ...]


@final
class Layouts:
    """The shapes met in a rendering of `text`, which falls into `pieces`. `displaced` is what `message_notes` takes."""

    def __init__(self, text: str, pieces: Pieces, displaced: Mapping[int, NoteKind]) -> None:
        self._text = text
        self._pieces = pieces
        self._displaced = displaced
        self._known: dict[_Shape, _Layout] = {}
        self._fields: dict[int, tuple[tuple[int, str], ...] | None] = {}

    def describe(
        self, index: int, message: dict[str, Any], places: Sequence[int], *, opens_turn: bool, closes_turn: bool
    ) -> tuple[tuple[Part, ...], tuple[Note, ...]]:
        """The parts and notes of message `index`, which owns the pieces at `places`."""
        shape: _Shape | None = None
        starts: list[int] = []
        if len(places) == 1 and index not in self._displaced:
            runs = self._pieces.runs(places[0])
            shape = self._shape(index, message, self._pieces.like(places[0]), runs, opens_turn, closes_turn)
            starts = [run[0] for run in runs]
            starts.append(runs[-1][1])
            layout = self._known.get(shape) if shape is not None else None
            if layout is not None:
                return _parts(layout.places, starts), layout.notes
        pieces = [segment for place in places for segment in self._pieces[place]]
        segments, ends = end_apart(self._text, pieces, index, message)
        parts = message_parts(segments, index, message, ends, opens_turn=opens_turn, closes_turn=closes_turn)
        shown = [segment for segment in segments if segment.start < segment.end]
        notes = tuple(message_notes(index, message, shown, self._displaced))
        if shape is not None:
            self._known[shape] = _Layout(_places(parts, starts), notes)
        return parts, notes

    def _shape(
        self, index: int, message: dict[str, Any], like: int, runs: Sequence[Run], opens_turn: bool, closes_turn: bool
    ) -> _Shape | None:
        """What parts and notes depend on besides offsets; None where that is more than a shape says."""
        if like in self._fields:
            fields = self._fields[like]
        else:
            fields = self._fields[like] = _text_fields(index, runs)
        if fields is None:
            return None
        calls = tuple(map(len, arguments_as_text(message))) if message.get("tool_calls") else ()
        shape: list[object] = [like, opens_turn, closes_turn, message.get("role"), calls]
        for name in TEXT_FIELDS:
            value = message.get(name)
            if value is None or not value:
                shape.append(None)
            elif type(value) is str:
                shape.append(value.isspace())
            else:
                return None
        for at, name in fields:
            shown = _shown(runs[at], message[name])
            # What two pieces of a text leave out together takes a closer look.
            if (shown is _CUT or shown is _TRIMMED) and sum(other == name for _, other in fields) > 1:
                return None
            shape.append(shown)
        return tuple(shape)


def _text_fields(index: int, runs: Sequence[Run]) -> tuple[tuple[int, str], ...] | None:
    """Which of the runs of message `index` show one of its text fields; None if they show what no shape says."""
    found = []
    for at, (_, _, (path, literal, message), _) in enumerate(runs):
        if literal:
            if path and path[0] == "tools":
                return None
            continue
        name = path[2] if len(path) > 2 else None
        if message is None or name is None or (message != index and name in TEXT_FIELDS):
            return None
        if len(path) == 3 and name in TEXT_FIELDS:
            found.append((at, str(name)))
    return tuple(found)


def _shown(run: Run, value: str) -> str:
    """How a run shows a text field."""
    start, end, _, source = run
    size = end - start
    if source < 0:
        return _COMPUTED
    if size == len(value):
        return _WHOLE
    before, after = value[source - 1 : source], value[source + size : source + size + 1]
    # Looked at first: to copy the text for each of thousands of runs would take the square of its length.
    if not (before + after).isspace():
        return _CUT
    left_out = value[:source] + value[source + size :]
    return _TRIMMED if left_out.isspace() else _CUT


def _places(parts: Sequence[Part], starts: Sequence[int]) -> tuple[_Place, ...]:
    places = []
    for kind, start, end, source, index, children in parts:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end) - 1
        inner = _places(children, starts)
        places.append(_Place(first, start - starts[first], last, end - starts[last], kind, source, index, inner))
    return tuple(places)


def _parts(places: Sequence[_Place], starts: Sequence[int]) -> tuple[Part, ...]:
    return tuple(
        [
            _new(
                Part,
                (
                    kind,
                    starts[first] + further,
                    starts[last] + beyond,
                    source,
                    index,
                    _parts(children, starts) if children else (),
                ),
            )
            for first, further, last, beyond, kind, source, index, children in places
        ]
    )
