from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse import load_source, parse, request_of, trace
from spanparse.conversation import check_messages, check_tools, load_conversation, parse_settings
from spanparse.errors import ConversationError

TEMPLATE = load_source("chatml")
USER = {"role": "user", "content": "Hello"}

FULL: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief.", "x-extra": {"kept": True}},
    {"role": "developer", "content": [{"type": "text", "text": "Use metric units."}]},
    {
        "role": "user",
        "name": "ada",
        "content": [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            {"type": "image_url", "image_url": "https://example.org/a.png"},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "image"},
            {"type": "video", "path": "a.mp4"},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Two calls.",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "2", "type": "function", "function": {"name": "f", "arguments": {"a": 2}}},
            {"name": "f", "arguments": {}},
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "1"},
    {"role": "tool", "tool_call_id": "2", "content": ""},
    {"role": "assistant", "tool_calls": []},
    {"role": "assistant", "content": "Done.", "tool_calls": None},
]
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}},
    {"name": "g", "parameters": {}},
    {"type": "web_search"},
]


def test_messages_and_tools_come_back_as_the_very_same_objects() -> None:
    before = copy.deepcopy((FULL, TOOLS))
    found = load_conversation(FULL, TOOLS)
    assert found.messages is FULL
    assert found.tools is TOOLS
    assert before == (FULL, TOOLS)


def test_an_object_may_carry_messages_tools_and_kwargs() -> None:
    body = {
        "model": "ignored",
        "messages": [USER],
        "tools": TOOLS,
        "chat_template_kwargs": {"a": 1},
    }
    found = load_conversation(json.dumps(body).encode())
    assert (found.messages, found.tools, found.kwargs) == ([USER], TOOLS, {"a": 1})
    body["kwargs"] = body.pop("chat_template_kwargs")
    assert load_conversation(body) == found


def test_tools_given_apart_replace_those_of_the_object() -> None:
    body = {"messages": [USER], "tools": TOOLS}
    assert load_conversation(body, [TOOLS[1]]).tools == [TOOLS[1]]
    assert load_conversation(body, {"tools": [TOOLS[2]]}).tools == [TOOLS[2]]
    assert load_conversation([USER]).tools is None


@pytest.mark.parametrize(
    ("message", "where", "said"),
    [
        ({"content": "x"}, "messages[1].role", "missing"),
        ({"role": "", "content": "x"}, "messages[1].role", "at least 1 character, got ''"),
        ({"role": ["user"], "content": "x"}, "messages[1].role", "got a list"),
        ({"role": "user"}, "messages[1].content", "missing"),
        ({"role": "user", "content": 3}, "messages[1].content", "a string or a list of parts or null, got 3"),
        ("hello", "messages[1]", "should be an object, got 'hello'"),
        ({"role": "user", "content": ["x"]}, "messages[1].content[0]", "should be an object"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[1].content[0].type", "missing"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0].text", "missing"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[1].content[0].image_url", "missing"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "messages[1].content[0].image_url.url",
            "missing",
        ),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
            "messages[1].content[0].input_audio.data",
            "missing",
        ),
        ({"role": "assistant", "reasoning_content": 1}, "messages[1].reasoning_content", "valid string, got 1"),
        ({"role": "assistant", "tool_calls": "f"}, "messages[1].tool_calls", "valid list"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[1].tool_calls[0].function", "missing"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]},
            "messages[1].tool_calls[0].function.name",
            "missing",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
            "messages[1].tool_calls[0].function.arguments",
            "a string or an object, got a list",
        ),
        ({"role": "tool", "content": "x", "tool_call_id": 7}, "messages[1].tool_call_id", "valid string, got 7"),
    ],
)
def test_a_fault_names_message_and_field(message: object, where: str, said: str) -> None:
    with pytest.raises(ConversationError) as caught:
        load_conversation([USER, message])
    assert (caught.value.where, caught.value.message) == (where, 1)
    assert said in caught.value.reason
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("role", ["ipython", "function", "critic", "Füchsin"])
def test_any_role_is_left_to_the_template(role: str) -> None:
    messages = [USER, {"role": role, "content": "x"}]
    assert load_conversation(messages).messages is messages


@pytest.mark.parametrize(
    ("tool", "where"),
    [
        ("f", "tools[0]"),
        ({}, "tools[0].function"),
        ({"type": "function"}, "tools[0].function"),
        ({"function": {}}, "tools[0].function.name"),
        ({"function": {"name": "f", "parameters": "x"}}, "tools[0].function.parameters"),
        ({"name": None}, "tools[0].name"),
    ],
)
def test_a_faulty_tool_is_named(tool: object, where: str) -> None:
    with pytest.raises(ConversationError) as caught:
        check_tools([tool])
    assert (caught.value.where, caught.value.message) == (where, None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "holds a number of too many digits"),
        ({"model": "x"}, "an object without messages"),
        ({"messages": "x"}, "should be a list, got 'x'"),
        ([], "the list is empty"),
        ({"messages": [USER], "kwargs": {"messages": []}}, "belongs beside kwargs"),
        ({"messages": [USER], "kwargs": [1]}, "should be an object"),
        (
            {"messages": [USER], "kwargs": {"a": 1}, "chat_template_kwargs": {"b": 1}},
            "messages: kwargs and chat_template_kwargs are two names for the same",
        ),
        ({"messages": [USER], "tools": "x"}, "should be a list"),
    ],
)
def test_unusable_input_is_refused_in_one_line(data: object, said: str) -> None:
    with pytest.raises(ConversationError) as caught:
        load_conversation(data)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["role", "content", "tool_calls", "type", "text", "function", "name", "arguments"]),
                inner | st.sampled_from(["user", "assistant", "text", "image_url", "input_audio"]),
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_accepted_or_refused(value: Any) -> None:
    with contextlib.suppress(ConversationError):
        assert check_messages([value])[0]["role"]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("a=1", 1),
        ("a=true", True),
        ('a={"x": [1]}', {"x": [1]}),
        ("a=high", "high"),
        ("a=", ""),
        ("a=b=c", "b=c"),
        ("a=NaN", "NaN"),
        ('a="1"', "1"),
    ],
)
def test_a_setting_is_json_if_it_parses_and_else_a_string(setting: str, expected: object) -> None:
    assert parse_settings([setting]) == {"a": expected}


@pytest.mark.parametrize("setting", ["a", "=1", "a b=1", "messages=[]", "add_generation_prompt=true"])
def test_a_setting_without_a_usable_key_is_refused(setting: str) -> None:
    with pytest.raises(ConversationError, match="--set"):
        parse_settings([setting])


def nested(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [100, 101, 900])
def test_values_nested_more_than_100_deep_are_refused_by_the_name_of_their_field(levels: int) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "search"}], "kwargs": {}}
    for part, place, where in (
        ("messages", 0, "messages[0].extra"),
        ("tools", 0, "tools[0].extra"),
        ("kwargs", None, "kwargs.extra"),
    ):
        data: Any = copy.deepcopy(body)
        (data[part] if place is None else data[part][place])["extra"] = nested(levels)
        if levels <= 100:
            load_conversation(data)
            continue
        fields = {"tools": data["tools"], "kwargs": data["kwargs"]}
        for refuses in (
            lambda data=data: load_conversation(data),
            lambda data=data, fields=fields: parse(TEMPLATE, data["messages"], **fields),
            lambda data=data, fields=fields: trace(TEMPLATE, request_of(TEMPLATE, data["messages"], **fields)),
        ):
            with pytest.raises(ConversationError) as raised:
                refuses()
            assert str(raised.value) == f"{where}: nested too deeply (more than 100 levels)"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (None, "messages: should be a list, got NoneType"),
        ("x", "messages: should be a list, got str"),
        ([USER, "x"], "messages[1]: should be an object, got str"),
    ],
)
def test_a_parse_refuses_what_is_no_list_of_objects(messages: Any, said: str) -> None:
    with pytest.raises(ConversationError) as raised:
        parse(TEMPLATE, messages)
    assert str(raised.value) == said


def test_a_parse_refuses_tools_that_are_no_list_of_objects() -> None:
    with pytest.raises(ConversationError, match=r"tools\[0\]: should be an object, got list"):
        parse(TEMPLATE, [USER], tools=[[]])  # type: ignore[list-item]
