"""What shapes are built of: messages, calls and tools with words of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.audit.vocabulary import Words

Message = dict[str, Any]
Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a template is given."""

    messages: list[Message]
    tools: list[Tool] | None = None


Builder = Callable[[Words, str], Conversation]

SHAPES: Final[dict[str, Builder]] = {}
"""The shapes that every template meets, by name; each takes fresh words and the template's text."""


def register_in(shapes: dict[str, Builder]) -> Callable[[str], Callable[[Builder], Builder]]:
    """A decorator that makes a function the shape of a name in `shapes`."""

    def shape(name: str) -> Callable[[Builder], Builder]:
        def register(builder: Builder) -> Builder:
            shapes[name] = builder
            return builder

        return register

    return shape


shape: Final = register_in(SHAPES)


def message(role: str, content: Any, **fields: Any) -> Message:
    return {"role": role, "content": content, **fields}


def user(w: Words) -> Message:
    return message("user", w.text())


def assistant(w: Words, **fields: Any) -> Message:
    return message("assistant", w.text(), **fields)


def system(w: Words) -> Message:
    return message("system", w.text())


def call(w: Words, number: int = 0, *, arguments: Any = None) -> dict[str, Any]:
    """A tool call; ids have the nine letters and digits that Mistral templates insist on."""
    if arguments is None:
        arguments = {w.one(): w.one(), w.one(): w.text(2)}
    return {"id": f"{w.one()[2:]}0{number}", "type": "function", "function": {"name": w.one(), "arguments": arguments}}


def calling(w: Words, calls: list[dict[str, Any]], content: Any = "", **fields: Any) -> Message:
    return message("assistant", content, tool_calls=calls, **fields)


def result(w: Words, call: dict[str, Any], content: Any = None) -> Message:
    text = w.text() if content is None else content
    return {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": text}


def schema(w: Words, call: dict[str, Any]) -> Tool:
    """A tool that fits a call."""
    arguments = call["function"]["arguments"]
    names = list(json.loads(arguments) if isinstance(arguments, str) else arguments)
    return tool(w, call["function"]["name"], {name: {"type": "string", "description": w.text(2)} for name in names})


def tool(w: Words, name: str, properties: dict[str, Any]) -> Tool:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": w.text(),
            "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]},
        },
    }


def image(w: Words) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"https://example.org/{w.one()}.png"}}


def text(w: Words) -> dict[str, Any]:
    return {"type": "text", "text": w.text()}
