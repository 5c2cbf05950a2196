"""How tool calls are written, and where the definitions of the tools stand."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from spanparse.analysis import probes
from spanparse.analysis.affixes import shared_end, shared_start
from spanparse.analysis.findings import Reasoning, RoleMarkers, ToolCalls, ToolsBlock
from spanparse.analysis.probes import Probe
from spanparse.analysis.trials import Trials
from spanparse.shared import common_prefix
from spanparse.spans import MessageSpan, Part, Rendering

_SITUATIONS: Final = (
    (probes.TOOLS_ALONE, "without a system message"),
    (probes.TOOLS_SYSTEM, "with a system message"),
    (probes.TOOLS_TURNS, "in a long conversation"),
)
_NUMBER: Final = re.compile(r"[0-9]{1,4}\Z")


class _Calls(NamedTuple):
    """The text of a message up to its first call's name, and so on: name, separator, arguments, and what is between."""

    lead: str
    separators: tuple[str, ...]
    gaps: tuple[str, ...]
    tail: str
    arguments: str


def find_tool_calls(trials: Trials, assistant: RoleMarkers | None, reasoning: Reasoning | None) -> ToolCalls | None:
    """The markers of tool calls; None if no probe shows a call."""
    several = _calls_in(trials.accepted(probes.CALLS), assistant, 2)
    # Arguments as an object may be what it refuses.
    alone = (
        _calls_in(trials.accepted(probe), assistant, 1)
        for probe in (probes.CALL_ANSWERED, probes.CALL, probes.CALL_LAST, probes.STRING_CALL)
    )
    single = next((found for found in alone if found), None)
    shown = several or single
    if shown is None:
        return None
    lead, tail = _behind(shown.lead, reasoning), shown.tail
    separator, notation = shown.separators[0], _notation(shown.arguments)
    start, end, section_start, section_end, between = lead, tail, "", "", None
    if shown.gaps:
        lead, gap = _uncounted(lead, shown.gaps[0])
        separator, _ = _uncounted(*shown.separators)
        start = shared_end([lead, gap])
        rest = gap[: len(gap) - len(start)]
        end = shared_start([tail, rest])
        section_start = lead[: len(lead) - len(start)]
        section_end = tail[len(end) :]
        between = rest[len(end) :]
    if notation == "own" and (bare := _bare(trials)):
        # What also stands where there are no arguments is the call's, the rest belongs to the arguments.
        separator = shared_start([separator, bare])
        end = shared_end([end, bare]) or end
    return ToolCalls(
        section_start if section_start.strip() else "",
        start,
        separator,
        end,
        between,
        section_end if section_end.strip() else "",
        notation,
        _string_arguments(trials),
    )


def _uncounted(first: str, second: str) -> tuple[str, str]:
    """What is written for two calls, with `{id}` for the number that the template counts them by if only that differs.

    Only what is behind that number need be the same.
    """
    shared = common_prefix(first[::-1], second[::-1])
    one, two = (_NUMBER.search(text[: len(text) - shared]) for text in (first, second))
    if one is None or two is None or int(two[0]) != int(one[0]) + 1:
        return first, second
    return f"{first[: one.start()]}{{id}}{first[one.end() :]}", f"{second[: two.start()]}{{id}}{second[two.end() :]}"


def _behind(lead: str, reasoning: Reasoning | None) -> str:
    """`lead` without the empty think block that some templates write in front of calls."""
    end = (reasoning.end if reasoning else None) or ""
    return lead[lead.rindex(end.strip()) + len(end.strip()) :] if end.strip() and end.strip() in lead else lead


def _bare(trials: Trials) -> str | None:
    """What follows the name of a call without arguments, up to the next message."""
    rendering = trials.accepted(probes.CALL_BARE)
    for message in rendering.messages if rendering else ():
        for part in message.parts:
            name = next((child for child in part.children if child.kind == "name"), None)
            if rendering is not None and part.kind == "tool_call" and name is not None:
                return probes.anonymous(rendering.text[name.end : part.end])
    return None


def _calls_in(rendering: Rendering | None, assistant: RoleMarkers | None, count: int) -> _Calls | None:
    """The calls of the first message that has as many, if the names and arguments of all of them are shown."""
    if rendering is None:
        return None
    message = next((m for m in rendering.messages if any(part.kind == "tool_call" for part in m.parts)), None)
    if message is None:
        return None
    text = rendering.text
    fields: list[tuple[Part, Part]] = []
    for call in (part for part in message.parts if part.kind == "tool_call"):
        children = {child.kind: child for child in call.children}
        if children.keys() >= {"name", "arguments"}:
            fields.append((children["name"], children["arguments"]))
    if len(fields) != count or any(name.start > arguments.start for name, arguments in fields):
        return None
    piece = next(piece for piece in message.pieces if piece.start <= fields[0][0].start < piece.end)
    begin = (assistant.start if assistant else None) or ""
    close = (assistant.end if assistant else None) or ""
    lead = text[piece.start : fields[0][0].start].removeprefix(begin)
    tail = _without_end(text[fields[-1][1].end : piece.end], close)
    gaps = tuple(text[a.end : b.start] for (_, a), (b, _) in pairwise(fields))
    arguments = fields[0][1]
    return _Calls(
        probes.anonymous(lead),
        tuple(probes.anonymous(text[name.end : arguments.start]) for name, arguments in fields),
        tuple(map(probes.anonymous, gaps)),
        probes.anonymous(tail),
        text[arguments.start : arguments.end],
    )


def _without_end(tail: str, end: str) -> str:
    for ending in (end, end.rstrip()):
        if ending and tail.endswith(ending):
            return tail.removesuffix(ending)
    return tail


def _notation(arguments: str) -> Literal["json", "python", "own"]:
    return "json" if _reads(json.loads, arguments) else "python" if _reads(ast.literal_eval, arguments) else "own"


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        return read(text) is not None
    except (ValueError, SyntaxError):
        return False


def _string_arguments(trials: Trials) -> Literal["verbatim", "encoded again", "rewritten", "dropped"] | None:
    rendering = trials.accepted(probes.STRING_CALL)
    if rendering is None:
        return None
    message = rendering.messages[1]
    text = "".join(rendering.text[piece.start : piece.end] for piece in message.pieces)
    if probes.STRING_ARGUMENTS in text:
        return "verbatim"
    if json.dumps(probes.STRING_ARGUMENTS) in text:
        return "encoded again"
    return "rewritten" if probes.VALUES[0] in text else "dropped"


def tools_blocks(trials: Trials) -> tuple[ToolsBlock, ...]:
    """Where the tool definitions stand, for each situation in which they are shown."""
    blocks = []
    for probe, situation in _SITUATIONS:
        rendering = trials.accepted(probe)
        if rendering is not None and (block := _block(rendering, probe, situation)):
            blocks.append(block)
    return tuple(blocks)


def _block(rendering: Rendering, probe: Probe, situation: str) -> ToolsBlock | None:
    for part in rendering.preamble.parts:
        if part.kind == "tools":
            notation = _format(rendering, part)
            return ToolsBlock(situation, None, None, None, notation, _separate(part), None, None)
    for message in rendering.messages:
        for part in message.parts:
            if part.kind == "tools":
                piece = next(piece for piece in message.pieces if piece.start <= part.start < piece.end)
                texts = [other.start for other in message.parts if other.kind == "content"]
                stop = min((start for start in texts if start >= part.end), default=piece.end)
                ends = [other.end for other in message.parts if other.kind == "content" and other.end <= part.start]
                return ToolsBlock(
                    situation,
                    message.role,
                    _which(rendering, message),
                    _place(message, part),
                    _format(rendering, part),
                    _separate(part),
                    rendering.text[max([piece.start, *ends]) : part.start],
                    rendering.text[part.end : stop],
                )
    return None


def _which(rendering: Rendering, message: MessageSpan) -> Literal["only", "first", "last", "other"]:
    alike = [other.index for other in rendering.messages if other.role == message.role]
    if len(alike) == 1:
        return "only"
    return "first" if message.index == alike[0] else "last" if message.index == alike[-1] else "other"


def _place(message: MessageSpan, block: Part) -> Literal["before the text", "after the text", "no text"]:
    texts = [part for part in message.parts if part.kind == "content"]
    if not texts:
        return "no text"
    return "before the text" if block.start < texts[0].start else "after the text"


def _separate(block: Part) -> bool:
    return len(block.children) == len(probes.TOOLS)


def _format(rendering: Rendering, block: Part) -> Literal["json", "indented json", "python", "own"]:
    first = block.children[0] if block.children else block
    text = rendering.text[first.start : first.end].strip()
    opening = text.find("{")
    if probes.FUNCTIONS[0] not in text or probes.KEYS[0] not in text or opening < 0:
        return "own"
    try:
        json.JSONDecoder().raw_decode(text, opening)
    except ValueError:
        return "python" if _reads(ast.literal_eval, text[opening : text.rfind("}") + 1]) else "own"
    return "indented json" if "\n" in text else "json"
