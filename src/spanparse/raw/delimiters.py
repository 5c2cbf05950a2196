"""What to look for in a rendered prompt: the markers of an analysis, in the order in which they are tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from spanparse.analysis import Analysis, RoleMarkers
from spanparse.analysis.affixes import CONTROL, MARKER

# Where roles share a marker, a text alone does not tell which it is: the likelier first.
_ORDER: Final = ("user", "assistant", "system", "tool", "developer")
_SHORTEST: Final = 3
_PLACEHOLDER: Final = re.compile(r"\{id\}|\{name\}")
# An end in no usual form: `[e~[`, `###`.
_SIGNS: Final = re.compile(r"[^\w\s]\S*[^\w\s]")
# What a placeholder may stand for.
_ANYTHING: Final = r"[^\n<>\[\]]{1,80}?"


class Block(NamedTuple):
    """Markers around the tool definitions, which may stand between a turn's end and a message of `role`."""

    role: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Delimiters:
    """Markers of turns, without the white space around them.

    `start` matches what begins a message, group *n* that of `roles[n - 1]`; None if nothing is known to. `ends` are
    whole trailers of the roles that have them, longest first, `closers` the last marker of each as well. `stems` open
    the starts and may stand in a text with something else behind. `companions` are the roles that a role may share a
    turn with. `headerless` says that assistants go on right behind another's end, `bare_system` that a system text
    opens the prompt without a marker. `joints` match the border between two messages of a role in one turn: group 1
    belongs to the first, the rest to the second. `call_end` closes tool calls, empty if no control token does.
    """

    start: re.Pattern[str] | None
    roles: tuple[str, ...]
    ends: Mapping[str, tuple[str, ...]]
    closers: Mapping[str, tuple[str, ...]]
    stems: tuple[str, ...]
    companions: Mapping[str, frozenset[str]]
    headerless: bool
    bare_system: bool
    joints: Mapping[str, re.Pattern[str]]
    block: Block | None
    call_end: str


def delimiters_of(analysis: Analysis) -> Delimiters:
    """The delimiters that an analysis gives reason to look for."""
    found: dict[str, str] = {}
    ordered = sorted(analysis.roles, key=lambda markers: _ORDER.index(markers.role))
    for markers in ordered:
        for text in _starts(markers):
            found.setdefault(text, markers.role)
    starts = sorted(found, key=lambda text: -len(text))
    pattern = "|".join(f"({_with_anything(text)})" for text in starts)
    ends = {markers.role: _ends(markers, analysis) for markers in ordered}
    assistant, system = analysis.markers_of("assistant"), analysis.markers_of("system")
    return Delimiters(
        re.compile(pattern) if starts else None,
        tuple(found[text] for text in starts),
        {role: texts for role, texts in ends.items() if texts},
        {role: _closers([*texts, *_ends_of_tools(analysis, role)]) for role, texts in ends.items() if texts},
        tuple(sorted({match[0] for text in starts if (match := MARKER.match(text))})),
        {markers.role: frozenset(markers.merged_with) for markers in ordered},
        assistant is not None and not (assistant.start or "").strip(),
        system is not None and not (system.start or "").strip() and not system.headers,
        {
            markers.role: _joint(*markers.joint)
            for markers in ordered
            if markers.joint and MARKER.search("".join(markers.joint))
        },
        _block(analysis, starts),
        _call_end(analysis),
    )


def _starts(markers: RoleMarkers) -> list[str]:
    texts = [markers.start, *markers.headers, *markers.other_starts]
    stripped = [text.strip() for text in texts if text]
    return [text for text in stripped if len(text) >= _SHORTEST]


def _with_anything(text: str) -> str:
    return _ANYTHING.join(re.escape(piece) for piece in _PLACEHOLDER.split(text))


def _ends(markers: RoleMarkers, analysis: Analysis) -> tuple[str, ...]:
    """Trailers that look like markers or are no words; what closes a call may close an assistant's turn."""
    texts = [markers.end, *markers.other_ends]
    if markers.role == "assistant":
        texts.append(_call_end(analysis))
    stripped = [_PLACEHOLDER.split(text)[-1].strip() for text in texts if text]
    return _longest_first(text for text in stripped if MARKER.search(text) or _SIGNS.fullmatch(text))


def _call_end(analysis: Analysis) -> str:
    """What closes a tool call, if that is a control token and nothing else."""
    end = analysis.tool_calls.end.strip() if analysis.tool_calls else ""
    return end if CONTROL.fullmatch(end) else ""


def _closers(ends: Iterable[str]) -> tuple[str, ...]:
    return _longest_first([*ends, *(found[-1] for end in ends if (found := MARKER.findall(end)))])


def _ends_of_tools(analysis: Analysis, role: str) -> list[str]:
    """What a message of `role` ends with if the tool definitions come last in it."""
    last = [tools.end for tools in analysis.tools if tools.role == role and tools.place == "after the text"]
    return [markers[-1] for text in last if (markers := MARKER.findall(text or ""))]


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts), key=lambda text: (-len(text), text)))


def _joint(end: str, start: str) -> re.Pattern[str]:
    return re.compile(f"({_with_anything(end)}){_with_anything(start)}")


def _block(analysis: Analysis, starts: Iterable[str]) -> Block | None:
    """The tools block, if markers of its own stand around it that open no message."""
    for tools in analysis.tools:
        if tools.role is None or tools.place != "before the text":
            continue
        start, end = MARKER.match((tools.start or "").lstrip()), MARKER.search(tools.end or "")
        if start and end and not any(text.startswith(start[0]) for text in starts):
            return Block(tools.role, start[0], end[0])
    return None
