"""The markers with which the published formats start a turn, known by sight and kept apart from the parser's own."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Markers(NamedTuple):
    """A format's name, and the patterns of what starts a turn and of what ends one (None: not known to be one text)."""

    name: str
    start: re.Pattern[str]
    end: re.Pattern[str] | None = None


FORMATS: Final = (
    Markers("ChatML", re.compile(r"<\|im_start\|>"), re.compile(r"<\|im_end\|>")),
    Markers("Llama 3", re.compile(r"<\|start_header_id\|>"), re.compile(r"<\|eot_id\|>|<\|eom_id\|>")),
    Markers("Gemma", re.compile(r"<start_of_turn>"), re.compile(r"<end_of_turn>")),
    Markers("Gemma 4", re.compile(r"<\|turn>"), re.compile(r"<turn\|>")),
    Markers("Harmony", re.compile(r"<\|start\|>"), re.compile(r"<\|end\|>|<\|call\|>|<\|return\|>")),
    Markers("Cohere", re.compile(r"<\|START_OF_TURN_TOKEN\|>"), re.compile(r"<\|END_OF_TURN_TOKEN\|>")),
    Markers("Granite", re.compile(r"<\|start_of_role\|>"), re.compile(r"<\|end_of_text\|>")),
    Markers("Solar", re.compile(r"<\|begin\|>"), re.compile(r"<\|end\|>")),
    Markers("Motif", re.compile(r"<\|startofturn\|>"), re.compile(r"<\|endofturn\|>")),
    Markers("Jamba", re.compile(r"<\|bom\|>"), re.compile(r"<\|eom\|>")),
    Markers("Apertus", re.compile(r"<\|(?:user|assistant|system|developer)_start\|>")),
    Markers("Kimi", re.compile(r"<\|im_(?:user|assistant|system)\|>"), re.compile(r"<\|im_end\|>")),
    Markers("DeepSeek", re.compile(r"<｜(?:User|Assistant|tool▁outputs▁begin)｜>")),
    Markers("Hunyuan", re.compile(r"<｜hy_(?:User|Assistant)｜>")),
    Markers(
        "Phi, GLM",
        re.compile(r"<\|(?:user|assistant|system|observation|tool|developer|available_tools|userprompt|response)\|>"),
    ),
    Markers("Mistral", re.compile(r"\[INST\]|\[SYSTEM_PROMPT\]|\[TOOL_RESULTS\]")),
)
OTHER: Final = "other"

CLOSER: Final = re.compile(r"<\|?/[^<>]*>|\[/[A-Z_]+\]|<[|｜]?[^<>]*(?:end|eo[mst])[^<>]*[|｜]?>", re.IGNORECASE)
"""What closes something, in any format."""


def format_of(text: str) -> Markers | None:
    """The format of a prompt or a template: the first whose start marker it holds; None if it holds none."""
    return next((markers for markers in FORMATS if markers.start.search(text)), None)
