"""What a template did to a message: dropped, merged, hoisted, repeated, trimmed, transformed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from operator import lt
from typing import Any, Final, TypeAlias

from spanparse.marks.origin import Run
from spanparse.ownership.parts import is_media
from spanparse.spans import REASONING_FIELDS, Note, NoteKind

_TEXT_FIELDS: Final = ("content", *REASONING_FIELDS)
_SAYING: Final = frozenset({"tool_calls", *_TEXT_FIELDS})
_Field = tuple[str | int, ...]
_Chain: TypeAlias = "tuple[int, _Chain] | None"


def message_notes(
    index: int, message: dict[str, Any], runs: Sequence[Run], displaced: Mapping[int, NoteKind]
) -> list[Note]:
    """Notes on message `index`, whose runs with characters are given in text order.

    `displaced` names the messages that are not in their place: `hoisted` in front of an earlier one or `moved` behind a
    later one. `dropped` says that nothing of what the message says is shown; if not even a header is, it has no span.
    """
    if not runs:
        return [Note("dropped")]
    notes = [Note(displaced[index])] if index in displaced else []
    shown: dict[_Field, list[Run]] = {}
    for run in runs:
        path, literal, _ = run[2]
        if not literal:
            shown.setdefault(path[2:], []).append(run)
    texts = _texts(message)
    for field, value in texts:
        # A text may be shown as part of a list that was printed whole.
        own = [run for depth in range(len(field)) for run in shown.get(field[: depth + 1], ())]
        notes += _text_notes(field, value, own)
    calls = message.get("tool_calls") or []
    notes += [Note("dropped", field) for field in _lost_calls(calls, shown)]
    content = message.get("content")
    media = [i for i, item in enumerate(content) if is_media(item)] if isinstance(content, list) else []
    written = {run.origin.path[2:4] for run in runs} if media else set()
    unseen = [i for i in media if ("content", i) not in written and ("content",) not in shown]
    notes += [Note("dropped", f"content[{i}]") for i in unseen]
    if len(unseen) == len(media) and not any(path and path[0] in _SAYING for path in shown):
        says = bool(calls) or bool(media) or any(value.strip() for _, value in texts)
        return [Note("dropped"), *notes] if says else notes
    return notes


def _lost_calls(calls: Sequence[Any], shown: Collection[_Field]) -> list[str]:
    """The calls of which nothing is shown, and the arguments that say something and are not shown."""
    lost = [i for i in range(len(calls)) if not any(path[:2] in (("tool_calls", i), ("tool_calls",)) for path in shown)]
    gone = ["tool_calls"] if calls and len(lost) == len(calls) else [f"tool_calls[{i}]" for i in lost]
    for i, call in enumerate(calls):
        inner = call.get("function") if isinstance(call, dict) else None
        text = inner.get("arguments") if isinstance(inner, dict) else None
        path = ("tool_calls", i, "function", "arguments")
        if i in lost or not isinstance(text, str) or not text.strip().strip("{}").strip():
            continue
        if not any(place and place == path[: len(place)] for place in shown):
            gone.append(f"tool_calls[{i}].function.arguments")
    return gone


def displaced_messages(order: Sequence[int]) -> dict[int, NoteKind]:
    """Which messages stand out of place, given all of them in text order.

    Those are the messages outside a longest rising subsequence.
    """
    if all(map(lt, order, order[1:])):
        return {}
    tails: list[int] = []
    chains: list[_Chain] = []
    for index in order:
        rank = bisect_left(tails, index)
        tails[rank : rank + 1] = [index]
        chains[rank : rank + 1] = [(index, chains[rank - 1] if rank else None)]
    kept = set()
    chain = chains[-1]
    while chain is not None:
        index, chain = chain
        kept.add(index)
    return {
        index: "moved" if any(other > index for other in order[:place]) else "hoisted"
        for place, index in enumerate(order)
        if index not in kept
    }


def _texts(message: dict[str, Any]) -> list[tuple[_Field, str]]:
    """The (path, text) of every text field and text part that is not empty."""
    found: list[tuple[_Field, str]] = []
    for field in _TEXT_FIELDS:
        value = message.get(field)
        if isinstance(value, str) and value:
            found.append(((field,), value))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, dict) and isinstance(item.get("text"), str) and item["text"]:
                    found.append(((field, i, "text"), item["text"]))
    return found


def _text_notes(field: _Field, value: str, runs: Sequence[Run]) -> list[Note]:
    name = str(field[0]) if len(field) == 1 else f"{field[0]}[{field[1]}]"
    if not runs:
        return [Note("dropped" if value.strip() else "trimmed", name)]
    if any(run.source < 0 for run in runs):
        return [Note("transformed", name)]
    ranges = sorted((run.source, run.source + run.end - run.start) for run in runs)
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
