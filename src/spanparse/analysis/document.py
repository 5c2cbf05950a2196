"""The JSON of an analysis: keys may be added, never renamed; what was not found is null."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from spanparse.analysis.findings import Analysis, Effect, Variable

SCHEMA_VERSION: Final = 1


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The whole document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "template": {
            "source": analysis.source,
            "sha256": analysis.sha256,
            "family": analysis.family,
            "variant": analysis.variant,
        },
        "accepts_nothing": analysis.accepts_nothing,
        "content_as": analysis.content_as,
        "special_tokens": [asdict(token) for token in analysis.special_tokens],
        "required": [{"name": name, "value": value} for name, value in analysis.required],
        "roles": {found.role: _without(asdict(found), "role") for found in analysis.roles},
        "generation_prompt": asdict(analysis.generation_prompt) if analysis.generation_prompt else None,
        "default_text": analysis.default_text,
        "reasoning": _reasoning(analysis),
        "tool_calls": asdict(analysis.tool_calls) if analysis.tool_calls else None,
        "tools": [asdict(block) for block in analysis.tools],
        "variables": [_variable(variable) for variable in analysis.variables],
        "shapes": [
            {
                "shape": verdict.shape,
                "accepted": verdict.refused is None,
                "reason": verdict.refused,
                "message": verdict.message,
                "loses": list(verdict.loses),
            }
            for verdict in analysis.verdicts
        ],
        "habits": [asdict(habit) for habit in analysis.habits],
        "bos": asdict(analysis.bos) if analysis.bos else None,
        "clock": asdict(analysis.clock),
        "media": [asdict(medium) for medium in analysis.media],
        "llama_cpp": asdict(analysis.llama_cpp),
        "inexact": [{"shape": shape, "reason": reason} for shape, reason in analysis.inexact],
        "control_tokens": list(analysis.control_tokens),
    }


def _without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def _settings(pairs: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in pairs]


def _reasoning(analysis: Analysis) -> dict[str, Any] | None:
    found = analysis.reasoning
    return None if found is None else {**asdict(found), "needs": _settings(found.needs)}


def _variable(variable: Variable) -> dict[str, Any]:
    return {"name": variable.name, "matters": variable.matters, "effects": [_effect(e) for e in variable.effects]}


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "value": effect.value,
        "changes": [asdict(change) for change in effect.changes],
        "refused": effect.refused,
        "together_with": _settings(effect.together_with),
    }
