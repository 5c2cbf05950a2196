"""What a template refuses, and what it does to messages that it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from spanparse.analysis.findings import Habit, Verdict
from spanparse.analysis.markers import ROLES
from spanparse.analysis.probes import VERDICT_PROBES, Probe
from spanparse.analysis.trials import Refusal, Trials
from spanparse.spans import REASONING_FIELDS, MessageSpan, Note, NoteKind, Rendering

_VERBS: dict[NoteKind, str] = {"dropped": "drops", "trimmed": "trims", "shortened": "shortens", "repeated": "repeats"}
_WHOLE: dict[NoteKind, str] = {"dropped": "drops", "merged": "merges", "hoisted": "hoists", "moved": "moves"}


def verdicts(trials: Trials) -> tuple[Verdict, ...]:
    """What the template does with each shape of conversation."""
    found = []
    for probe in VERDICT_PROBES:
        outcome = trials.parse(probe)
        if isinstance(outcome, Refusal):
            found.append(Verdict(probe.shape, outcome.reason, outcome.message))
        else:
            found.append(Verdict(probe.shape, loses=tuple(_lost(probe, outcome))))
    return tuple(found)


def _lost(probe: Probe, rendering: Rendering) -> Iterator[str]:
    """What of the probe is nowhere in the rendering; reasoning has a finding of its own."""
    if probe.tools and not _shows_tools(rendering):
        yield "tools"
    for span, message in zip(rendering.messages, probe.messages, strict=True):
        where = f"messages[{span.index}]"
        if Note("dropped") in span.notes:
            yield f"{where} ({span.role})"
            continue
        for what, field in span.notes:
            if what == "dropped" and field and field not in REASONING_FIELDS and not _shows_whole(span, field):
                yield f"{where}.{field}"
        if message.get("tool_calls") and not any(part.kind == "tool_call" for part in span.parts):
            yield f"{where}.tool_calls"


def _shows_tools(rendering: Rendering) -> bool:
    parts = [*rendering.preamble.parts, *(part for message in rendering.messages for part in message.parts)]
    return any(part.kind == "tools" for part in parts)


def habits(trials: Trials) -> tuple[Habit, ...]:
    """What the template does to messages, from the notes on all probes; sorted by what it does, then by role."""
    shapes: dict[tuple[str, str, str | None], list[str]] = {}
    for probe in VERDICT_PROBES:
        rendering = trials.accepted(probe)
        if rendering is None:
            continue
        for span in rendering.messages:
            if span.role not in ROLES:
                continue
            for what, field in _deeds(trials, probe, rendering, span):
                seen = shapes.setdefault((what, span.role, field), [])
                if probe.shape not in seen:
                    seen.append(probe.shape)
    ordered = sorted(shapes.items(), key=lambda entry: (entry[0][0], entry[0][1], entry[0][2] or ""))
    return tuple(Habit(what, role, field, tuple(seen)) for (what, role, field), seen in ordered)


def _deeds(trials: Trials, probe: Probe, rendering: Rendering, span: MessageSpan) -> Iterator[tuple[str, str | None]]:
    """(What, field) for each note on a message; reasoning has a finding of its own."""
    for what, field in span.notes:
        if field is None:
            yield _WHOLE[what], None
        elif field in REASONING_FIELDS:
            continue
        elif what == "transformed" or (what == "dropped" and _shows_whole(span, field)):
            yield _transformation(trials, probe, rendering, span), _plain(field)
        else:
            yield _VERBS[what], _plain(field)


def _shows_whole(span: MessageSpan, field: str) -> bool:
    """Whether a part of a list that is nowhere by itself is shown as part of the whole list, printed as it is."""
    return field.endswith("]") and any(part.source == _plain(field) for part in span.parts)


def _plain(field: str) -> str:
    return field.partition("[")[0]


def _transformation(trials: Trials, probe: Probe, rendering: Rendering, span: MessageSpan) -> str:
    """Whether a transformed content is the JSON or the Python notation of what was given."""
    content: Any = trials.request(probe).messages[span.index]["content"]
    shown = "".join(rendering.text[piece.start : piece.end] for piece in span.pieces)
    text = content if isinstance(content, str) else content[0].get("text", "")
    if any(json.dumps(value, ensure_ascii=False) in shown for value in (content, text)):
        return "writes as JSON"
    if any(repr(value) in shown for value in (content, text)):
        return "writes as Python"
    return "rewrites"
