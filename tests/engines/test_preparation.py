"""What llama-server does to a request, on requests that show one habit each."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engines.preparation import HABITS, Prepared, prepared, relevant

USER = {"role": "user", "content": "a"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
TEXT_CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
OTHER_CALL = {"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}}
EACH: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "developer": ([{"role": "developer", "content": "b"}], [{"role": "system", "content": "b"}]),
    "system": ([{"role": "system", "content": "b"}, USER], [{"role": "user", "content": "b\na"}]),
    "joined": (
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
            }
        ],
        [{"role": "user", "content": "a\nb"}],
    ),
    "typed": ([USER], [{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
    "empty": ([{"role": "assistant", "content": None}], [{"role": "assistant", "content": ""}]),
    "parsed": ([{"role": "assistant", "tool_calls": [TEXT_CALL]}], [{"role": "assistant", "tool_calls": [CALL]}]),
    "strings": ([{"role": "assistant", "tool_calls": [CALL]}], [{"role": "assistant", "tool_calls": [TEXT_CALL]}]),
    "fields": (
        [{"content": "a", "role": "user", "mood": "good"}],
        [{"role": "user", "content": "a"}],
    ),
    "stripped": ([{"role": "user", "content": " a\n"}], [USER]),
    "reasoning parts": (
        [{"role": "assistant", "content": "b", "reasoning_content": "r"}],
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "b"}]}],
    ),
    "tool responses": (
        [
            {"role": "assistant", "content": "lost", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "1", "content": '{"y": 2}'},
            {"role": "assistant", "content": "b"},
        ],
        [
            {
                "role": "assistant",
                "tool_calls": [CALL],
                "tool_responses": [{"name": "f", "response": {"y": 2}}],
                "content": "b",
            }
        ],
    ),
    "result order": (
        [
            {"role": "assistant", "tool_calls": [CALL, OTHER_CALL]},
            {"role": "tool", "tool_call_id": "2", "content": "second"},
            {"role": "tool", "tool_call_id": "1", "content": "first"},
        ],
        [
            {"role": "assistant", "tool_calls": [CALL, OTHER_CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "first"},
            {"role": "tool", "tool_call_id": "2", "content": "second"},
        ],
    ),
    "reasoning for text": (
        [{"role": "assistant", "content": "b", "reasoning_content": "r", "tool_calls": [CALL]}],
        [{"role": "assistant", "reasoning_content": "r", "tool_calls": [CALL]}],
    ),
}
ABOUT_RENDERING = {"continued", "one name", "undefined"}


@pytest.mark.parametrize("name", EACH)
def test_a_habit_changes_the_messages(name: str) -> None:
    sent, shown = EACH[name]
    assert prepared(Prepared(sent, None), frozenset({name})).messages == shown


def test_every_habit_that_changes_messages_is_shown() -> None:
    assert EACH.keys() | ABOUT_RENDERING == HABITS.keys()


def test_tools_keep_the_fields_that_the_server_knows() -> None:
    function = {"parameters": {}, "strict": True, "name": "f"}
    shown = prepared(Prepared([USER], [{"function": function, "type": "function"}]), frozenset({"fields"})).tools
    assert shown == [{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}]


def test_an_order_of_fields_that_changes_is_relevant() -> None:
    assert "fields" in relevant(Prepared([{"content": "a", "role": "user"}], None), "")
    assert "fields" not in relevant(Prepared([USER], None), "")


def test_what_the_server_does_to_some_templates_messages_is_relevant_for_these_only() -> None:
    sent = Prepared([{"role": "user", "content": " a"}], None)
    assert "stripped" in relevant(sent, "You have access to the following functions in JSONSchema format")
    assert "stripped" not in relevant(sent, "")


def test_the_request_itself_is_left_alone() -> None:
    sent = Prepared([{"role": "assistant", "content": None, "tool_calls": [CALL]}], None)
    prepared(sent, frozenset(HABITS))
    assert sent.messages == [{"role": "assistant", "content": None, "tool_calls": [CALL]}]
