"""What the stretches of a message are: header, reasoning, content, tool calls, tool result, media, trailer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from spanparse.marks.origin import Origin
from spanparse.ownership.markers import RESULT_ROLES, ending_run, thought_in
from spanparse.ownership.segments import Segment, split_at
from spanparse.spans import REASONING_FIELDS, Part, PartKind

# What templates build headers from.
_IN_HEADERS = frozenset({"role", "name", "tool_call_id"})
_Kind = tuple[PartKind | None, int | None]
_TEMPLATE_TEXT: _Kind = (None, None)


@dataclass(slots=True)
class _Draft:
    """A part under construction; `kind` None stands for template text whose place is not known yet."""

    kind: PartKind | None
    start: int
    end: int
    source: str | None = None
    index: int | None = None
    children: tuple[Part, ...] = ()


def end_apart(
    text: str, segments: Sequence[Segment], index: int, message: dict[str, Any]
) -> tuple[Sequence[Segment], int]:
    """The segments of message `index` with the end of its turn cut apart, and the place of the first of that end.

    It is looked for where other text of the template's would take it in: text that is written for a tool call, or that
    has nothing in front that the message says, as names and tools are not. Elsewhere the place is behind all segments.
    """
    begin = count = len(segments)
    while begin and segments[begin - 1].is_own and (begin == count or segments[begin - 1].end == segments[begin].start):
        begin -= 1
    tail = segments[begin:]
    says_nothing = all(s.is_frame or _classify(s, index, message)[0] in (None, "tools") for s in segments[:begin])
    if says_nothing or any("tool_calls" in segment.origin.path for segment in tail):
        border = ending_run(text, tail[0].start, tail[-1].end) if tail else 0
        if tail and border < tail[-1].end:
            cut = [*segments[:begin], *split_at(tail, [border])]
            return cut, next(place for place, segment in enumerate(cut) if segment.start == border)
    return segments, count


def message_parts(
    segments: Sequence[Segment], index: int, message: dict[str, Any], ends: int, *, opens_turn: bool, closes_turn: bool
) -> tuple[Part, ...]:
    """The parts that tile the segments of message `index`, which from the place `ends` on are the end of its turn.

    Template text before the first field is the header if the message opens a turn, text after the last one and the end
    of the turn the trailer if it closes it; anything else the template wrote is a `delimiter`.
    """
    drafts = _group(segments[:ends], index, message)
    filled = [i for i, draft in enumerate(drafts) if draft.kind is not None]
    first = filled[0] if filled else len(drafts)
    last = filled[-1] if filled else len(drafts) - 1
    if ends < len(segments):
        says_nothing = all(drafts[i].kind == "tools" for i in filled)
        if not says_nothing and drafts[-1].kind is None and drafts[-1].end == segments[ends].start:
            drafts[-1].end = segments[-1].end
        else:
            last = len(drafts) - 1 if says_nothing else last
            drafts.append(_Draft(None, segments[ends].start, segments[-1].end))
    parts = []
    for i, draft in enumerate(drafts):
        if draft.start == draft.end:
            continue  # an empty field: it parts the header from the trailer
        kind: PartKind = draft.kind or "delimiter"
        if draft.kind is None and i < first and opens_turn:
            kind = "header"
        elif draft.kind is None and i > last and closes_turn:
            kind = "trailer"
        parts.append(Part(kind, draft.start, draft.end, draft.source, draft.index, draft.children))
    return tuple(parts)


def preamble_parts(segments: Sequence[Segment], text: str, bos: str) -> tuple[Part, ...]:
    """The parts of the text that no message owns: beginning of sequence, tools, default text."""
    if not segments:
        return ()
    start, end = segments[0].start, segments[-1].end
    parts = []
    if bos and text.startswith(bos, start):
        parts.append(Part("bos", start, start + len(bos)))
        start += len(bos)
    # A loop over the tools may leave white space in front of the beginning of the sequence.
    tools = [segment for segment in segments if segment.is_tools and segment.start >= start]
    if tools:
        block = _tools_part(tools)
        if block.start > start:
            parts.append(Part("default_text", start, block.start))
        parts.append(block)
        start = block.end
    if end > start:
        parts.append(Part("default_text", start, end))
    return tuple(parts)


def prompt_parts(text: str, start: int, end: int) -> tuple[Part, ...]:
    """The parts of the generation prompt [start, end): header, prefilled reasoning, and what closes that."""
    opened, closed = thought_in(text, start, end) or (end, end)
    kinds: tuple[PartKind, ...] = ("header", "reasoning", "delimiter")
    borders = pairwise((start, opened, closed, end))
    return tuple(Part(kind, *border) for kind, border in zip(kinds, borders, strict=True) if border[0] < border[1])


def _group(segments: Sequence[Segment], index: int, message: dict[str, Any]) -> list[_Draft]:
    kinds = [_classify(segment, index, message) for segment in segments]
    drafts: list[_Draft] = []
    at = 0
    while at < len(segments):
        kind, number = kinds[at]
        end = _group_end(segments, kinds, at)
        run = segments[at:end]
        if kind == "tools":
            block = _tools_part([segment for segment in run if segment.is_tools])
            drafts.append(_Draft("tools", block.start, block.end, "tools", None, block.children))
        else:
            source = None if kind is None else _source(run, kind, number)
            children = _call_children(run) if kind == "tool_call" else ()
            drafts.append(_Draft(kind, run[0].start, run[-1].end, source, number, children))
        at = end
    return drafts


def _group_end(segments: Sequence[Segment], kinds: Sequence[_Kind], at: int) -> int:
    """One past the last segment that belongs to the same part as the one at `at`.

    A tools block and a tool call may have template text between their fields: it belongs to them. Texts go on as long
    as they come from the same field.
    """
    kind = kinds[at]
    bridges = kind[0] == "tools" or (kind[0] == "tool_call" and kind[1] is not None)
    one_field = kind[0] in ("content", "reasoning", "tool_result", "field")
    end = at + 1
    for i in range(at + 1, len(segments)):
        if segments[i].start != segments[i - 1].end:
            break
        if kinds[i] == kind:
            if one_field and segments[i].origin.path != segments[at].origin.path:
                break
            end = i + 1
        elif not bridges or kinds[i] != _TEMPLATE_TEXT or not segments[i].origin.literal:
            break
    return end


def _classify(segment: Segment, index: int, message: dict[str, Any]) -> _Kind:
    origin = segment.origin
    if segment.is_tools:
        return "tools", None
    if origin.message != index or len(origin.path) < 3:
        return _TEMPLATE_TEXT
    field = origin.path[2]
    if field == "tool_calls":
        call = origin.path[3] if len(origin.path) > 3 else None
        if isinstance(call, int):
            return "tool_call", call
        return _TEMPLATE_TEXT if origin.literal else ("tool_call", None)
    if field == "content":
        place = _media_index(origin, message)
        if place is not None:
            return "media", place
        if origin.literal:
            return _TEMPLATE_TEXT
        return ("tool_result" if message.get("role") in RESULT_ROLES else "content"), None
    if origin.literal or field in _IN_HEADERS:
        return _TEMPLATE_TEXT
    return ("reasoning" if field in REASONING_FIELDS else "field"), None


def _media_index(origin: Origin, message: dict[str, Any]) -> int | None:
    """Which of the message's media parts a path leads into, counted from 0."""
    if len(origin.path) < 4 or not isinstance(origin.path[3], int):
        return None
    items = message.get("content")
    if not isinstance(items, list):
        return None
    place = origin.path[3]
    if not is_media(items[place]):
        return None
    return sum(is_media(item) for item in items[:place])


def is_media(item: Any) -> bool:
    """Whether a content part is an image, audio or video."""
    return isinstance(item, dict) and item.get("type") not in (None, "text") and "text" not in item


def _source(run: Sequence[Segment], kind: PartKind, number: int | None) -> str | None:
    if kind == "tool_call":
        return "tool_calls" if number is None else f"tool_calls[{number}]"
    if kind == "media":
        return f"content[{run[0].origin.path[3]}]"
    return run[0].origin.field


def _call_children(run: Sequence[Segment]) -> tuple[Part, ...]:
    """Name and arguments of a call; of a name that stands there more than once the last in front of the arguments."""
    children = []
    shown = [s for s in run if not s.origin.literal and s.start < s.end]
    arguments = [s for s in shown if "arguments" in s.origin.path[4:]]
    names = [s for s in shown if "name" in s.origin.path[4:]]
    if arguments:
        children.append(_child("arguments", arguments))
        names = [s for s in names if s.end <= arguments[0].start] or names
    if names:
        last = len(names) - 1
        while last and names[last - 1].end == names[last].start:
            last -= 1
        children.append(_child("name", names[last:]))
    return tuple(sorted(children, key=lambda part: part.start))


def _child(kind: PartKind, found: Sequence[Segment]) -> Part:
    field = found[0].origin.field
    return Part(kind, found[0].start, found[-1].end, field[: field.index(kind) + len(kind)])


def _tools_part(tools: Sequence[Segment]) -> Part:
    """The tools block with one child for each tool that can be told apart."""
    children: list[Part] = []
    for segment in tools:
        number = segment.origin.path[1] if len(segment.origin.path) > 1 else None
        if not isinstance(number, int):
            continue
        if children and children[-1].index == number:
            children[-1] = Part("tool", children[-1].start, segment.end, f"tools[{number}]", number)
        else:
            children.append(Part("tool", segment.start, segment.end, f"tools[{number}]", number))
    shown = tuple(child for child in children if child.start < child.end)
    return Part("tools", tools[0].start, tools[-1].end, "tools", None, shown)
