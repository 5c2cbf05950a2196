"""Renders with one message changed: what differs from the text came from that message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.audit.fields import replaced
from tests.audit.oracle.view import Fault, View, owner_name
from tests.audit.vocabulary import turned

_TEXTS: Final = ("content", "reasoning", "tool_result")
_LETTER: Final = re.compile("[a-pr-y]")
_BLOCK: Final = 4096


def check_changes(view: View) -> list[Fault]:
    """Texts changed letter by letter, names and ids excepted.

    Where the length stays the same, every character that differs must be the message's own and the caller's. Where it
    does not, the stretch that differs must hold something of the message. Where nothing differs, the message cannot
    show a text.
    """
    found = []
    for index in view.case.probes:
        message = view.case.messages[index]
        changed = replaced(message, lambda field: field.value if field.borrowed else turned(field.value))
        other = view.case.text_with(index, changed, view.generation) if changed != message else None
        if other is None:
            continue
        if other == view.text:
            found += _phantoms(view, index)
        elif len(other) == len(view.text):
            found += _strangers(view, index, other)
        elif index not in view.owners[slice(*_differing(view.text, other))]:
            found.append(Fault("change", index, "changes a stretch that holds nothing of it"))
    return found


def _phantoms(view: View, index: int) -> list[Fault]:
    """Parts with letters that show a text; a list is shown even if the texts in it are empty."""
    said = [field.path for field in view.fields[index] if field.value.strip()]
    return [
        Fault("phantom", index, f"{part.kind} [{part.start}, {part.end}) does not depend on the message")
        for part in view.rendering.messages[index].parts
        if part.kind in _TEXTS
        and _LETTER.search(view.text, part.start, part.end)
        and (part.source is None or any(path.startswith(part.source) for path in said))
    ]


def _strangers(view: View, index: int, other: str) -> list[Fault]:
    caller = [False] * len(view.text)
    for start, end in view.rendering.caller_text:
        caller[start:end] = [True] * (end - start)
    for place in _differences(view.text, other):
        if view.owners[place] != index:
            return [Fault("change", index, f"changes the text at {place}, owned by {owner_name(view.owners[place])}")]
        if not caller[place]:
            return [Fault("caller-text", index, f"changes the text at {place}, said to be the template's own")]
    return []


def _differences(a: str, b: str) -> Iterator[int]:
    """The places where two texts of one length differ."""
    for start in range(0, len(a), _BLOCK):
        if a[start : start + _BLOCK] != b[start : start + _BLOCK]:
            yield from (i for i in range(start, min(start + _BLOCK, len(a))) if a[i] != b[i])


def _differing(text: str, other: str) -> tuple[int, int]:
    """The stretch of `text` between what both begin and end with, with one character more on each side."""
    shorter = min(len(text), len(other))
    head = next((i for i in range(shorter) if text[i] != other[i]), shorter)
    tail = next((i for i in range(shorter - head) if text[-1 - i] != other[-1 - i]), shorter - head)
    return max(0, head - 1), len(text) - tail + 1
