"""Shapes: tool calls, their results, and tools."""

from __future__ import annotations

import json
from typing import Any

from tests.audit.shapes import building as make
from tests.audit.shapes.building import Conversation, shape
from tests.audit.vocabulary import Words


def _one_call(w: Words, arguments: Any, content: Any, *, answer: bool = True) -> Conversation:
    call = make.call(w, arguments=arguments)
    messages = [make.system(w), make.user(w), make.calling(w, [call], content), make.result(w, call)]
    return Conversation([*messages, make.assistant(w), make.user(w)] if answer else messages, [make.schema(w, call)])


@shape("call with object arguments")
def _object_arguments(w: Words, template: str) -> Conversation:
    return _one_call(w, {w.one(): w.one(), w.one(): w.text(2)}, "")


@shape("call with string arguments")
def _string_arguments(w: Words, template: str) -> Conversation:
    return _one_call(w, json.dumps({w.one(): w.one(), w.one(): w.text(2)}), "")


@shape("call with null content")
def _null_content(w: Words, template: str) -> Conversation:
    return _one_call(w, None, None)


@shape("call with text beside it")
def _text_beside_call(w: Words, template: str) -> Conversation:
    return _one_call(w, None, w.text())


@shape("call with nested arguments")
def _nested_arguments(w: Words, template: str) -> Conversation:
    inner = {w.one(): [1, 2.5, True, None, w.one()], w.one(): {w.one(): {w.one(): 'é😀"\\\n' + w.one()}}}
    return _one_call(w, {w.one(): inner, w.one(): 42, w.one(): False, w.one(): None}, "")


@shape("call without arguments")
def _no_arguments(w: Words, template: str) -> Conversation:
    return _one_call(w, {}, "")


@shape("call answered last")
def _tool_last(w: Words, template: str) -> Conversation:
    return _one_call(w, None, "", answer=False)


@shape("call last")
def _call_last(w: Words, template: str) -> Conversation:
    call = make.call(w)
    return Conversation([make.user(w), make.calling(w, [call])], [make.schema(w, call)])


@shape("call without tools or names")
def _bare_call(w: Words, template: str) -> Conversation:
    call = make.call(w)
    result = {"role": "tool", "tool_call_id": call["id"], "content": w.text()}
    return Conversation([make.user(w), make.calling(w, [call]), result, make.assistant(w)])


@shape("two parallel calls")
def _parallel_calls(w: Words, template: str) -> Conversation:
    calls = [make.call(w, 1), make.call(w, 2)]
    messages = [
        make.user(w),
        make.calling(w, calls),
        *(make.result(w, call) for call in calls),
        make.assistant(w),
        make.user(w),
    ]
    return Conversation(messages, [make.schema(w, call) for call in calls])


@shape("parallel results in another order")
def _reordered_results(w: Words, template: str) -> Conversation:
    calls = [make.call(w, 1), make.call(w, 2), make.call(w, 3)]
    results = [make.result(w, call) for call in reversed(calls)]
    return Conversation([make.user(w), make.calling(w, calls), *results], [make.schema(w, call) for call in calls])


@shape("tool loop of five rounds")
def _tool_loop(w: Words, template: str) -> Conversation:
    messages = [make.system(w), make.user(w)]
    tools = []
    for number in range(5):
        call = make.call(w, number)
        tools.append(make.schema(w, call))
        messages += [make.calling(w, [call]), make.result(w, call)]
    return Conversation([*messages, make.assistant(w), make.user(w)], tools)


@shape("tool result as list parts")
def _list_result(w: Words, template: str) -> Conversation:
    call = make.call(w)
    result = make.result(w, call, [make.text(w), make.text(w)])
    return Conversation([make.user(w), make.calling(w, [call]), result, make.assistant(w)], [make.schema(w, call)])


@shape("tool result as JSON")
def _json_result(w: Words, template: str) -> Conversation:
    call = make.call(w)
    result = make.result(w, call, json.dumps({w.one(): w.one(), "n": 1}))
    return Conversation([make.user(w), make.calling(w, [call]), result, make.assistant(w)], [make.schema(w, call)])


@shape("reasoning beside calls")
def _agent(w: Words, template: str) -> Conversation:
    messages = [make.system(w), make.user(w)]
    tools = []
    for number in range(2):
        call = make.call(w, number)
        tools.append(make.schema(w, call))
        messages += [make.calling(w, [call], w.text(), reasoning_content=w.text()), make.result(w, call)]
    messages += [make.assistant(w, reasoning_content=w.text()), make.user(w)]
    call = make.call(w, 3)
    tools.append(make.schema(w, call))
    return Conversation(
        [*messages, make.calling(w, [call], "", reasoning_content=w.text()), make.result(w, call)], tools
    )


@shape("tools with nested schemas")
def _nested_tools(w: Words, template: str) -> Conversation:
    inner = {
        "type": "object",
        "description": w.text(2),
        "properties": {w.one(): {"type": "array", "items": {"type": "string", "enum": [w.one(), w.one()]}}},
        "required": [],
    }
    one = make.tool(w, w.one(), {w.one(): inner, w.one(): {"type": "integer", "minimum": 0, "default": 3}})
    two = make.tool(w, w.one(), {w.one(): {"anyOf": [{"type": "string"}, {"type": "null"}], "description": w.text(2)}})
    three = {"type": "function", "function": {"name": w.one(), "description": w.text(2), "parameters": {}}}
    return Conversation([make.system(w), make.user(w), make.assistant(w), make.user(w)], [one, two, three])


@shape("tools without a system text")
def _tools_only(w: Words, template: str) -> Conversation:
    return Conversation(
        [make.user(w)], [make.tool(w, w.one(), {w.one(): {"type": "string", "description": w.text(2)}})]
    )
