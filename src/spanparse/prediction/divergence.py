"""Which field of the present request an offset of its prompt lies in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, final

from spanparse.prediction.outcome import Divergence
from spanparse.rendering.render import Request
from spanparse.spans import Part, Rendering

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class Shown(NamedTuple):
    """One top-level part of a prompt and the message it belongs to, None for the preamble."""

    message: int | None
    part: Part


FieldKey = tuple[int | None, str]
"""A message's index and the path of one of its fields."""


@final
class Places:
    """The parts of a rendering in text order. Nothing here changes; lookups take logarithmic time."""

    def __init__(self, rendering: Rendering, request: Request) -> None:
        shown = [Shown(None, part) for part in rendering.preamble.parts]
        shown += [Shown(message.index, part) for message in rendering.messages for part in message.parts]
        self.shown = sorted(shown, key=lambda place: place.part.start)
        self._starts = [place.part.start for place in self.shown]
        self._rendering = rendering
        self._request = request

    def fields_from(self, offset: int) -> Iterator[Shown]:
        """The parts that show a field and end after `offset`, in text order."""
        for place in self.shown[self._at(offset) :]:
            if place.part.source is not None and place.part.end > offset:
                yield place

    def end_of_part(self, offset: int) -> int:
        """Where the part (or the generation prompt) that holds `offset` ends."""
        generation = self._rendering.generation_prompt
        if generation is not None and generation.start <= offset < generation.end:
            return generation.end
        return self.shown[self._at(offset)].part.end

    def start_of(self, message: int) -> int | None:
        """Where `message` begins; None if it is not shown, or there is no such message."""
        messages = self._rendering.messages
        return messages[message].start if message < len(messages) else None

    def text_start_of(self, message: int) -> int | None:
        """Where the first text of `message` begins; where the message does if it shows none."""
        parts = self._rendering.messages[message].parts
        return next((part.start for part in parts if part.kind == "content"), self.start_of(message))

    def divergence(self, kept: int, gone: Collection[FieldKey]) -> Divergence | None:
        """Where a prompt parts from this one after `kept` characters; None if that is all of it.

        `gone` holds the fields that do not come back: the template's text around one of them counts as that field.
        """
        generation = self._rendering.generation_prompt
        if kept >= len(self._rendering.text):
            return None
        if generation is not None and generation.start <= kept < generation.end:
            return Divergence(None, "generation_prompt", kept - generation.start)
        at = self._at(kept)
        message, part = self.shown[at]
        if part.source is None:
            follower = next((place for place in self.shown[at + 1 :] if place.part.source is not None), None)
            if follower is not None and follower.message == message:
                field = follower.part.source or ""
                if (message, field) in gone:
                    return Divergence(message, field, 0)
            return Divergence(message, part.kind, kept - part.start)
        innermost = _innermost(part, kept)
        return Divergence(message, innermost.source or part.kind, self._field_offset(message, innermost, kept))

    def _at(self, offset: int) -> int:
        """The index of the last part that begins at or before `offset`."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def _field_offset(self, message: int | None, part: Part, kept: int) -> int | None:
        value = _value(self._request, message, part.source or "")
        into = kept - part.start
        if not isinstance(value, str):
            return into
        shown = self._rendering.text[part.start : part.end]
        # A template may cut a text in two, so what an earlier part shows of the field is not this part's.
        begin = 0
        for place in self.shown:
            if place.part.start >= part.start:
                break
            if place.message == message and place.part.source == part.source:
                text = self._rendering.text[place.part.start : place.part.end]
                begin = max(begin, value.find(text, begin) + len(text))
        found = value.find(shown, begin)
        found = value.find(shown) if found < 0 else found
        return None if found < 0 else found + into


def _innermost(part: Part, offset: int) -> Part:
    for child in part.children:
        if child.start <= offset < child.end:
            return _innermost(child, offset)
    return part


def _value(request: Request, message: int | None, source: str) -> Any:
    """The value of a field, None where the path leads nowhere."""
    value: Any = {"tools": request.tools}
    if message is not None and not source.startswith("tools["):
        value = request.messages[message]
    for index, name in _STEP.findall(source):
        try:
            value = value[int(index)] if index else value[name]
        except (LookupError, TypeError):
            return None
    return value
