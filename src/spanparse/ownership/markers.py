"""Markers by which templates show where turns begin and end, read off the text that they write themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spanparse.ownership.segments import Segment, lead_end

CONTROL = re.compile(
    r"<\|[^<>|\s]{1,40}\|?>|<[^<>|\s/]{1,40}\|>|<[a-z_]*(?:start|turn|bos)[a-z_]*>|<｜[^｜]{1,40}｜>|\[[A-Z_]{2,30}\]"
)
_CLOSING = re.compile(CONTROL.pattern + r"|</[^<>\s]{1,40}>|\[/[A-Z_]{2,30}\]")
_END = re.compile(r"(?<![a-z])end(?![a-z])|end_?of|eot(?![a-z])|eos(?![a-z])|eom(?![a-z])|/", re.IGNORECASE)
_BEGIN = re.compile(r"begin|start|bos|<s>", re.IGNORECASE)
_ROLES = ("assistant", "user", "system", "developer", "tool", "model", "human", "bot")


def learn_starts(text: str, segments: Sequence[Segment]) -> frozenset[str]:
    """The markers that a template writes in front of messages; empty where it writes none.

    That is the first marker that no message's lead ends a turn with, and every marker named after a role.
    """
    starts: set[str] = set()
    begun: set[int] = set()
    literals: set[str] = set()
    previous: int | None = None
    for place, segment in enumerate(segments):
        owner = segment.owner
        if segment.origin.literal and not segment.is_tools:
            literals.add(text[segment.start : segment.end])
        if owner is not None and owner >= 0 and owner not in begun and owner != previous:
            begun.add(owner)
            end = lead_end(segments, place, with_role=False)
            starts |= _first_start(text[segment.start : segments[end - 1].end] if end > place else "")
        previous = owner if owner is not None else previous
    return frozenset(starts | _role_markers(literals))


def _first_start(lead: str) -> set[str]:
    lead = lead.strip()
    while (closing := _CLOSING.match(lead)) and is_closing(closing[0]):
        lead = lead[closing.end() :].lstrip()
    marker = CONTROL.match(lead)
    if "call" in (marker[0] if marker else lead).lower():
        return set()  # it opens a tool call: `[TOOL_CALLS]`, `<tool_calls>`
    if marker is None:
        return {lead} if len(lead) > 2 else set()
    opening = next((found[0] for found in CONTROL.finditer(lead) if not is_closing(found[0])), None)
    return set() if opening is None else {opening}


def _role_markers(literals: Iterable[str]) -> set[str]:
    return {
        found[0]
        for literal in literals
        for found in CONTROL.finditer(literal)
        if not is_closing(found[0]) and "".join(filter(str.isalpha, found[0])).lower().endswith(_ROLES)
    }


def is_closing(marker: str) -> bool:
    """Whether a marker ends something, as far as its name shows: `<|im_end|>`, `[/INST]`, Gemma 4's `<turn|>`."""
    return bool(_END.search(marker)) or (marker.endswith("|>") and not marker.startswith("<|"))


class Openers:
    """What the template's own text opens, so that it can be told what a closing marker closes."""

    def __init__(self, text: str, segments: Iterable[Segment]) -> None:
        self._text = text
        self._segments = segments
        self._written: str | None = None
        self._names: set[str] = set()

    def closing_run(self, start: int, end: int) -> int:
        """Where a run of closing markers that begins at `start` ends, `start` if there is none.

        Each ends a turn as such, or something that the template opens somewhere.
        """
        at = start
        while (found := _CLOSING.match(self._text, at, end)) and is_closing(found[0]) and self._opens(found[0]):
            at = found.end()
        return at

    def _opens(self, marker: str) -> bool:
        if self._written is None:
            own = {self._text[s.start : s.end] for s in self._segments if s.origin.literal and not s.is_tools}
            self._written = "\n".join(sorted(own))
            self._names = {_name(found[0]) for found in CONTROL.finditer(self._written) if not is_closing(found[0])}
        name = _name(marker)
        return not name or name in self._names or (marker.startswith("</") and f"<{marker[2:]}" in self._written)


def _name(marker: str) -> str:
    """What a marker is called apart from begin and end: `tool_outputs` of `<｜tool▁outputs▁end｜>`."""
    letters = re.sub(r"[^a-z]+", " ", _BEGIN.sub(" ", _END.sub(" ", marker)).lower())
    return " ".join(
        word for word in letters.split() if word not in ("im", "of", "id", "turn", "token", "sentence", "text")
    )


def is_opening(text: str) -> bool:
    """Whether text in front of a start marker opens a sequence or turn too: `<s>` in `<s>[INST]`."""
    return not text.strip() or bool(_BEGIN.search(text))
