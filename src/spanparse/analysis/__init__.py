"""What a chat template writes, reads, refuses and does to messages, found by trying small conversations on it."""

from __future__ import annotations

from spanparse.analysis.analyse import analyse
from spanparse.analysis.findings import (
    Analysis,
    Bos,
    Change,
    Clock,
    Effect,
    GenerationPrompt,
    Habit,
    LlamaCpp,
    Medium,
    Reasoning,
    RoleMarkers,
    SpecialToken,
    ToolCalls,
    ToolsBlock,
    Variable,
    Verdict,
    to_json,
)

__all__ = [
    "Analysis",
    "Bos",
    "Change",
    "Clock",
    "Effect",
    "GenerationPrompt",
    "Habit",
    "LlamaCpp",
    "Medium",
    "Reasoning",
    "RoleMarkers",
    "SpecialToken",
    "ToolCalls",
    "ToolsBlock",
    "Variable",
    "Verdict",
    "analyse",
    "to_json",
]
