"""What llama-server does to a request before a template sees it.

Said of its sources, `common/chat.cpp` and `common/parsers/`. What depends on the template there (the server tries out
what it can show) is a habit here, to be tried as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

Message = dict[str, Any]

HABITS: Final[Mapping[str, str]] = {
    "continued": "an assistant's message that comes last is continued: nothing ends its turn and no generation prompt "
    "follows (what is proven here is the prompt before it, and that its text comes last)",
    "developer": "the role `developer` becomes `system`, but not for gpt-oss",
    "system": "where the template shows no system text, it goes in front of the next message's, with a line break",
    "joined": "texts in a list are joined with line breaks and other parts left out, if the template takes strings",
    "typed": "a string becomes a list with one text, if the template takes nothing but lists",
    "empty": "null content becomes an empty text",
    "parsed": "a call's arguments that are JSON text become an object, if the template takes objects",
    "strings": "a call's arguments that are an object become JSON text, if the template takes only that",
    "one name": "`reasoning_content` has no second name; transformers shows it as `thinking` too",
    "fields": "messages, calls and tools keep the fields that the server knows, in its order",
    "undefined": "`tools`, `documents` and `add_generation_prompt` are not defined where the request has none; "
    "transformers makes them null, null and false",
    "stripped": "texts are stripped (StepFun's templates)",
    "reasoning parts": "reasoning becomes a part of the content, which becomes a list (Ministral 3's templates)",
    "tool responses": "calls, their results and the answer after them become one message with `tool_responses` "
    "(Gemma 4's templates that do not hold the comment `{#- OpenAI Chat Completions:`)",
    "result order": "results are put in the order of their calls (DeepSeek V4's templates)",
    "reasoning for text": "a message with reasoning and calls loses its text (gpt-oss)",
}
"""Its habits by name, in the order in which they are tried."""


_ONLY_WITH: Final[Mapping[str, str]] = {
    "stripped": "You have access to the following functions in JSONSchema format",
    "reasoning parts": "[SYSTEM_PROMPT]",
    "tool responses": "'<|tool_call>call:'",
    "result order": "dsml_token",
    "reasoning for text": "<|channel|>",
}
"""What a template's text holds by which the server recognises those whose messages it rewrites."""


class Prepared(NamedTuple):
    """What a template is given of a request."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None


def prepared(request: Prepared, habits: frozenset[str]) -> Prepared:
    """The request after the habits; `continued`, `one name` and `undefined` are about rendering and change nothing."""
    messages = [*request.messages]
    tools = request.tools
    if "fields" in habits:
        messages = [_known_fields(message) for message in messages]
        tools = tools and [_known_tool(tool) for tool in tools]
    for name, change in _ONE.items():
        if name in habits:
            messages = [change(message) for message in messages]
    if "system" in habits:
        messages = _without_system(messages)
    if "tool responses" in habits:
        messages = _with_responses(messages)
    if "result order" in habits:
        messages = _in_order(messages)
    return Prepared(messages, tools)


def relevant(request: Prepared, template: str) -> frozenset[str]:
    """The habits that change something in this request for a template."""
    first, last = request.messages[0], request.messages[-1]
    found = {"undefined"} | {name for name in HABITS if prepared(request, frozenset({name})) != request}
    # Equal dictionaries may differ in their order, which templates show.
    if json.dumps(prepared(request, frozenset({"fields"}))) != json.dumps(request):
        found.add("fields")
    # These change what another habit makes, or only how the request is rendered.
    if first["role"] == "developer":
        found.add("system")
    if last["role"] == "assistant" and not last.get("tool_calls"):
        found.add("continued")
    if any("reasoning_content" in message for message in request.messages):
        found.add("one name")
    return frozenset(name for name in found if _ONLY_WITH.get(name, "") in template)


def _joined(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "\n".join(part["text"] for part in content if part["type"] == "text")}


def _typed(message: Message) -> Message:
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def _empty(message: Message) -> Message:
    return {**message, "content": ""} if message.get("content") is None else message


def _developer(message: Message) -> Message:
    return {**message, "role": "system"} if message["role"] == "developer" else message


def _with_arguments(message: Message, change: Callable[[Any], Any]) -> Message:
    if not message.get("tool_calls"):
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _parsed(message: Message) -> Message:
    return _with_arguments(message, lambda value: json.loads(value) if isinstance(value, str) else value)


def _strings(message: Message) -> Message:
    def text(value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    return _with_arguments(message, text)


def _stripped(message: Message) -> Message:
    return {
        name: value.strip() if name in ("content", "reasoning_content") and isinstance(value, str) else value
        for name, value in message.items()
    }


def _reasoning_parts(message: Message) -> Message:
    if message["role"] not in ("system", "assistant"):
        return message
    adjusted = {**message}
    reasoning = adjusted.pop("reasoning_content", None)
    parts = [{"type": "thinking", "thinking": reasoning}] if isinstance(reasoning, str) else []
    content = message.get("content")
    return {**adjusted, "content": [*parts, *([{"type": "text", "text": content}] if content is not None else [])]}


def _reasoning_for_text(message: Message) -> Message:
    if "reasoning_content" not in message or not message.get("tool_calls"):
        return message
    return {name: value for name, value in message.items() if name != "content"}


_ONE: Final[Mapping[str, Callable[[Message], Message]]] = {
    "empty": _empty,
    "stripped": _stripped,
    "joined": _joined,
    "typed": _typed,
    "developer": _developer,
    "strings": _strings,
    "parsed": _parsed,
    "reasoning parts": _reasoning_parts,
    "reasoning for text": _reasoning_for_text,
}


def _without_system(messages: list[Message]) -> list[Message]:
    if not messages or messages[0]["role"] != "system":
        return messages
    texts = [message.get("content") for message in messages[:2]]
    if len(messages) == 1 or not all(isinstance(text, str) for text in texts):
        return messages[1:]
    return [{**messages[1], "content": "\n".join(map(str, texts))}, *messages[2:]]


def _with_responses(messages: list[Message]) -> list[Message]:
    """Each run of calls, results and a final answer as one message."""
    found: list[Message] = []
    rest = [*messages]
    while rest:
        message = rest.pop(0)
        if message["role"] != "assistant" or not message.get("tool_calls"):
            found.append(message)
            continue
        turn: Message = {name: message[name] for name in ("role", "tool_calls", "reasoning_content") if name in message}
        names = [call["function"]["name"] for call in message["tool_calls"]]
        responses: list[dict[str, Any]] = []
        while rest and rest[0]["role"] == "tool":
            result = rest.pop(0)
            name = names[len(responses)] if len(responses) < len(names) else result.get("tool_call_id", "")
            responses.append({"name": name, "response": _from_json(result.get("content"))})
        if responses:
            turn["tool_responses"] = responses
        if rest and rest[0]["role"] == "assistant" and not rest[0].get("tool_calls") and rest[0].get("content"):
            turn["content"] = rest.pop(0)["content"]
        found.append(turn)
    return found


def _in_order(messages: list[Message]) -> list[Message]:
    """Each run of results in the order of the calls before it."""
    found: list[Message] = []
    calls: list[str] = []
    for role, group in groupby(messages, key=lambda message: str(message["role"])):
        run = [*group]
        if role == "assistant":
            calls = [call.get("id", "") for call in run[-1].get("tool_calls") or []]
        if role == "tool":
            run.sort(
                key=lambda message: calls.index(message["tool_call_id"]) if message.get("tool_call_id") in calls else 0
            )
        found += run
    return found


def _from_json(content: Any) -> Any:
    try:
        return json.loads(content) if isinstance(content, str) else content
    except ValueError:
        return content


def _known_fields(message: Message) -> Message:
    shown = {"role": message["role"], "content": message.get("content")}
    for name in ("reasoning_content", "name", "tool_call_id"):
        if message.get(name):
            shown[name] = message[name]
    if message.get("tool_calls"):
        shown["tool_calls"] = [_known_call(call) for call in message["tool_calls"]]
    return shown


def _known_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
    known = {"type": "function", "function": function}
    return {**known, "id": call["id"]} if call.get("id") else known


def _known_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    known = {"name": function["name"], "description": function.get("description", "")}
    return {"type": "function", "function": {**known, "parameters": function["parameters"]}}
