"""What a template did to a message: dropped, merged, hoisted, repeated, trimmed, transformed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import lt
from typing import Any

from spanparse.ownership.parts import is_media
from spanparse.ownership.segments import Segment
from spanparse.spans import REASONING_FIELDS, Note, NoteKind

TEXT_FIELDS = ("content", *REASONING_FIELDS)


def message_notes(
    index: int, message: dict[str, Any], segments: Sequence[Segment], displaced: Mapping[int, NoteKind]
) -> list[Note]:
    """Notes on message `index`, whose segments are given in text order.

    `displaced` names the messages that are not in their place: `hoisted` in front of an earlier one or `moved` behind a
    later one. `dropped` says that nothing of what the message says is shown; if not even a header is, it has no span.
    """
    if not segments:
        return [Note("dropped")]
    notes = [Note(displaced[index])] if index in displaced else []
    shown = {segment.origin.path[2:] for segment in segments if not segment.origin.literal}
    texts = _texts(message)
    for field, value in texts:
        notes += _text_notes(field, value, [s for s in segments if _is_from(s, field)])
    calls = message.get("tool_calls") or []
    lost = [i for i in range(len(calls)) if not any(path[:2] in (("tool_calls", i), ("tool_calls",)) for path in shown)]
    gone = ["tool_calls"] if calls and len(lost) == len(calls) else [f"tool_calls[{i}]" for i in lost]
    gone += [
        f"tool_calls[{i}].function.arguments"
        for i, path in enumerate(arguments_as_text(message))
        if path and i not in lost and not any(place == path[: len(place)] for place in shown if place)
    ]
    written = {segment.origin.path[2:4] for segment in segments}
    media = [i for i, item in enumerate(_items(message)) if is_media(item)]
    unseen = [i for i in media if ("content", i) not in written and ("content",) not in shown]
    notes += [Note("dropped", field) for field in (*gone, *(f"content[{i}]" for i in unseen))]
    says = bool(calls) or bool(media) or any(value.strip() for _, value in texts)
    if (
        says
        and len(unseen) == len(media)
        and not any(path[0] in ("tool_calls", *TEXT_FIELDS) for path in shown if path)
    ):
        notes.insert(0, Note("dropped"))
    return notes


def arguments_as_text(message: dict[str, Any]) -> list[tuple[str | int, ...]]:
    """For each call the path of its arguments, if they are a text that says something; else an empty one."""
    found: list[tuple[str | int, ...]] = []
    for i, call in enumerate(message.get("tool_calls") or ()):
        inner = call.get("function") if isinstance(call, dict) else None
        text = inner.get("arguments") if isinstance(inner, dict) else None
        says = isinstance(text, str) and text.strip().strip("{}").strip()
        found.append(("tool_calls", i, "function", "arguments") if says else ())
    return found


def _items(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def displaced_messages(order: Sequence[int]) -> dict[int, NoteKind]:
    """Which messages stand out of place, given all of them in text order.

    Those are the messages outside a longest rising subsequence.
    """
    if all(map(lt, order, order[1:])):
        return {}
    tails: list[int] = []
    last: list[int] = []
    previous = [-1] * len(order)
    for place, index in enumerate(order):
        rank = bisect_left(tails, index)
        if rank == len(tails):
            tails.append(index)
            last.append(place)
        else:
            tails[rank] = index
            last[rank] = place
        previous[place] = last[rank - 1] if rank else -1
    kept = set()
    place = last[-1] if last else -1
    while place >= 0:
        kept.add(order[place])
        place = previous[place]
    return {
        index: "moved" if any(other > index for other in order[:place]) else "hoisted"
        for place, index in enumerate(order)
        if index not in kept
    }


def _texts(message: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """The (path, text) of every text field and text part that is not empty."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for field in TEXT_FIELDS:
        value = message.get(field)
        if isinstance(value, str) and value:
            found.append(((field,), value))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, dict) and isinstance(item.get("text"), str) and item["text"]:
                    found.append(((field, i, "text"), item["text"]))
    return found


def _is_from(segment: Segment, field: tuple[str | int, ...]) -> bool:
    """Whether a segment shows `field`, itself or within a list that was printed whole."""
    path = segment.origin.path[2:]
    return not segment.origin.literal and bool(path) and path == field[: len(path)]


def _text_notes(field: tuple[str | int, ...], value: str, segments: Sequence[Segment]) -> list[Note]:
    name = str(field[0]) if len(field) == 1 else f"{field[0]}[{field[1]}]"
    if not segments:
        return [Note("dropped" if value.strip() else "trimmed", name)]
    if any(segment.source < 0 for segment in segments):
        return [Note("transformed", name)]
    ranges = sorted((s.source, s.source + s.end - s.start) for s in segments)
    notes: list[Note] = []
    covered = ranges[0][0]
    missing = value[:covered]
    for start, end in ranges:
        if start < covered and not notes:
            notes.append(Note("repeated", name))
        missing += value[covered:start]
        covered = max(covered, end)
    missing += value[covered:]
    if missing:
        notes.append(Note("shortened" if missing.strip() else "trimmed", name))
    return notes
