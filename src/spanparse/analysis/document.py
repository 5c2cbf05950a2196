"""The JSON of an analysis: keys may be added, never renamed; what was not found is null."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from spanparse.analysis.findings import Analysis

SCHEMA_VERSION: Final = 1


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The whole document."""
    names = ("source", "sha256", "family", "variant")
    document = asdict(analysis)
    template = {name: document.pop(name) for name in names}
    document["roles"] = {found.pop("role"): found for found in document["roles"]}
    document["required"] = _settings(analysis.required)
    if analysis.reasoning is not None:
        document["reasoning"]["needs"] = _settings(analysis.reasoning.needs)
    for shown, variable in zip(document["variables"], analysis.variables, strict=True):
        shown["matters"] = variable.matters
        for effect in shown["effects"]:
            effect["together_with"] = _settings(effect["together_with"])
    document["shapes"] = [
        {
            "shape": verdict.shape,
            "accepted": verdict.refused is None,
            "reason": verdict.refused,
            "message": verdict.message,
            "loses": verdict.loses,
        }
        for verdict in analysis.verdicts
    ]
    del document["verdicts"]
    document["inexact"] = [{"shape": shape, "reason": reason} for shape, reason in analysis.inexact]
    return {"schema_version": SCHEMA_VERSION, "template": template, **document}


def _settings(pairs: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in pairs]
