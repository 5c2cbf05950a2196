"""The JSON of `spanparse inspect`: keys may be added, never renamed; what is unknown is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spanparse.ownership.owners import Decision
from spanparse.sources import TemplateSource
from spanparse.spans import MessageSpan, Part, Reason, Rendering

SCHEMA_VERSION: Final = 1
OWNERS: Final[Mapping[int, str]] = {-1: "preamble", -2: "generation prompt"}
"""Owners of text that are no messages."""


def inspection(template: TemplateSource, rendering: Rendering, tokens: Mapping[str, Any] | None) -> dict[str, Any]:
    """The whole document. `tokens` holds `tokens` and `barriers` as `spanparse.tokens.to_json` makes them."""
    before = rendering.preamble
    return {
        "schema_version": SCHEMA_VERSION,
        "template": {**template_json(template, rendering), "variant": template.variant},
        "text": rendering.text,
        "exact": rendering.exact,
        **_reason(rendering.reason),
        "notes": [str(note) for note in rendering.notes],
        "preamble": {"start": before.start, "end": before.end, "parts": [part_json(part) for part in before.parts]},
        "messages": [message_json(message) for message in rendering.messages],
        "generation_prompt": _generation_prompt(rendering),
        "system_end": rendering.system_end,
        "barriers": tokens["barriers"] if tokens else _barriers(rendering),
        "tokens": tokens["tokens"] if tokens else None,
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """One stretch of the template's own text with its owner, and the rule that gave it to that."""
    return {**decision._asdict(), "owner": OWNERS.get(decision.owner, decision.owner)}


def template_json(template: TemplateSource, rendering: Rendering) -> dict[str, str]:
    """What names the template in a document."""
    return {"source": template.source, "sha256": template.sha256, "family": rendering.family}


def message_json(message: MessageSpan) -> dict[str, Any]:
    """One message's span; `pieces` only if there are several."""
    pieces = {"pieces": [piece._asdict() for piece in message.pieces]} if len(message.pieces) > 1 else {}
    return {
        "index": message.index,
        "role": message.role,
        "start": message.start,
        "end": message.end,
        "exact": message.exact,
        **_reason(message.reason),
        "notes": [str(note) for note in message.notes],
        **pieces,
        "parts": [part_json(part) for part in message.parts],
    }


def _reason(reason: Reason | None) -> dict[str, Any]:
    """`reason_detail` is there only where more is known than the kind."""
    if reason is None or (reason.field is None and reason.operation is None):
        return {"reason": reason and reason.kind}
    return {"reason": reason.kind, "reason_detail": {"field": reason.field, "operation": reason.operation}}


def part_json(part: Part) -> dict[str, Any]:
    """One part; `source`, `index` and `children` only where it has them."""
    data: dict[str, Any] = {"kind": part.kind, "start": part.start, "end": part.end}
    if part.source is not None:
        data["source"] = part.source
    if part.index is not None:
        data["index"] = part.index
    if part.children:
        data["children"] = [part_json(child) for child in part.children]
    return data


def _generation_prompt(rendering: Rendering) -> dict[str, Any] | None:
    if rendering.generation_prompt is None:
        return None
    parts = [part_json(part) for part in rendering.generation_parts]
    return {**rendering.generation_prompt._asdict(), "parts": parts}


def _barriers(rendering: Rendering) -> list[dict[str, Any]]:
    unknown = dict.fromkeys(("token", "position", "backed_off"))
    return [{"offset": barrier.offset, **unknown, **barrier._asdict()} for barrier in rendering.barriers]
