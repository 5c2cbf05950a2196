"""The built-in sample conversation, and what of it a template accepts.

The sample shows what an agent's prompt is made of: a system message, two tools, a tool loop with reasoning, an answer,
and a second user turn whose loop still runs, so that a template that drops old reasoning has some to drop and to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from spanparse.errors import TemplateRefused

Message = dict[str, Any]
Tool = dict[str, Any]
Render = Callable[[list[Message], list[Tool] | None], object]


class Sample(NamedTuple):
    """A conversation that a template accepts; `cut` says in a sentence what of the sample it lacks, None if nothing."""

    messages: list[Message]
    tools: list[Tool] | None
    cut: str | None


def sample_messages() -> list[Message]:
    """A fresh copy of the sample's messages."""
    return [
        {"role": "system", "content": "You plan walks in the hills. Check the weather before you promise a dry day."},
        {"role": "user", "content": "Is Saturday good for a walk up to the Kestrel Hut?"},
        _call("walk00001", "forecast", {"place": "Kestrel Hut", "days": 3}, "Saturday is two days ahead: three days."),
        _result("walk00001", "Thu rain, Fri showers until noon, Sat dry, wind 25 km/h from the west"),
        _call("walk00002", "route", {"to": "Kestrel Hut", "options": {"pace": "easy"}}, "Dry. Now how long it takes."),
        _result("walk00002", "9.4 km, 610 m up, 3 h 20 min; the ford below the hut is knee deep after rain"),
        {
            "role": "assistant",
            "content": "Yes, Saturday stays dry. Allow 3 h 20 min up, and take sandals for the ford below the hut.",
            "reasoning_content": "Dry on the day, but it rains before, so the ford matters.",
        },
        {"role": "user", "content": "And is there a way round the ford?"},
        _call("walk00003", "route", {"to": "Kestrel Hut", "options": {"avoid": ["ford"]}}, "The same walk, no ford."),
        _result("walk00003", "11.8 km over the footbridge at Alder Mill, 640 m up, 4 h"),
    ]


def sample_tools() -> list[Tool]:
    """A fresh copy of the sample's tools."""
    place = {"type": "string", "description": "Name of a hut, a village or a peak."}
    options = {
        "type": "object",
        "properties": {
            "pace": {"type": "string", "enum": ["easy", "normal", "fast"]},
            "avoid": {"type": "array", "items": {"type": "string"}, "description": "What the route must not cross."},
        },
    }
    return [
        _tool("forecast", "Weather day by day.", {"place": place, "days": {"type": "integer"}}, ["place"]),
        _tool("route", "Length, climb and walking time of a way on foot.", {"to": place, "options": options}, ["to"]),
    ]


def _call(identifier: str, name: str, arguments: dict[str, Any], reasoning: str) -> Message:
    call = {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
    # Half of the published templates cannot take null content beside a tool call, which an empty text means as well.
    return {"role": "assistant", "content": "", "reasoning_content": reasoning, "tool_calls": [call]}


def _result(identifier: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": identifier, "content": text}


def _tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


class _Cut(NamedTuple):
    """What to leave out of the sample."""

    tools: bool = False
    tool_messages: bool = False
    system: bool = False

    def apply(self) -> tuple[list[Message], list[Tool] | None]:
        messages = sample_messages()
        if self.tool_messages:
            messages = [m for m in messages if m["role"] != "tool" and "tool_calls" not in m]
        if self.system:
            messages = [m for m in messages if m["role"] != "system"]
        return messages, None if self.tools else sample_tools()

    def __str__(self) -> str:
        names = [name for name, left_out in zip(_NAMES, self, strict=True) if left_out]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_NAMES: Final = ("tools", "tool messages", "system message")

# From the whole sample to the least, and of two equally long ones first that which keeps the tool loop.
_CUTS: Final = (
    _Cut(),
    _Cut(tools=True),
    _Cut(system=True),
    _Cut(tools=True, system=True),
    _Cut(tool_messages=True),
    _Cut(tools=True, tool_messages=True),
    _Cut(tool_messages=True, system=True),
    _Cut(tools=True, tool_messages=True, system=True),
)


def fit(render: Render) -> Sample:
    """The most of the sample that `render` accepts.

    `render` renders messages and tools with the template in question; only the `TemplateRefused` it raises counts as a
    refusal, its result is not looked at. A template that takes no text as content is offered lists of text parts.
    Raises the last refusal if even a single user message is refused.
    """
    because = ""
    for in_parts in (False, True):
        for cut in _CUTS:
            messages, tools = cut.apply()
            sample = Sample(_as_parts(messages) if in_parts else messages, tools, _sentence(cut, in_parts))
            try:
                render(sample.messages, sample.tools)
            except TemplateRefused as refused:
                because = because if in_parts else refused.reason
            else:
                return sample
    single = [next(m for m in sample_messages() if m["role"] == "user")]
    render(single, None)
    return Sample(
        single, None, f"The sample is cut down to one user message; this template refuses the rest: {because}"
    )


def _as_parts(messages: list[Message]) -> list[Message]:
    return [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]


def _sentence(cut: _Cut, in_parts: bool) -> str | None:
    if not any(cut):
        return "The sample conversation is shown with lists of parts as content." if in_parts else None
    with_parts = "with lists of parts as content and " if in_parts else ""
    return f"The sample conversation is shown {with_parts}without {cut}, which this template refuses."
