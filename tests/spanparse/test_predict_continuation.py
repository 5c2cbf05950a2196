"""The next request's messages, in the form that the conversation uses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.prediction import Continuation, continuations
from spanparse.prediction.continuation import two_turns
from spanparse.sample import sample_messages, sample_tools

Message = dict[str, Any]

USER: Message = {"role": "user", "content": "Is it far?"}
ANSWER: Message = {"role": "assistant", "content": "Two hours."}


def called(**function: Any) -> Message:
    call = {"id": "call00001", "type": "function", "function": {"name": "route", "arguments": {}, **function}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def result(identifier: str = "call00001") -> Message:
    return {"role": "tool", "tool_call_id": identifier, "content": "9 km"}


def named(name: str, messages: list[Message], tools: Any = None) -> Continuation:
    return next(c for c in continuations(messages, tools) if c.name == name)


def added(name: str, messages: list[Message], tools: Any = None) -> list[Message]:
    return named(name, messages, tools).messages[len(messages) :]


def roles(messages: list[Message]) -> list[str]:
    return [message["role"] + ("+" if message.get("tool_calls") else "") for message in messages]


def test_an_answer_is_appended_to_what_asks_for_one() -> None:
    assert roles(added("assistant_answer", [USER])) == ["assistant"]
    assert roles(added("assistant_answer", [USER, called(), result()])) == ["assistant"]


def test_only_the_answer_with_reasoning_has_any() -> None:
    (plain,) = added("assistant_answer", [USER])
    (thinking,) = added("assistant_answer_with_reasoning", [USER])
    assert "reasoning_content" not in plain
    assert thinking["reasoning_content"]


def test_a_tool_call_comes_with_its_result() -> None:
    call, answer = added("tool_call", [USER])
    assert call["tool_calls"][0]["id"] == answer["tool_call_id"]


def test_a_tool_call_names_a_tool_that_there_is() -> None:
    call, answer = added("tool_call", [USER], sample_tools())
    assert call["tool_calls"][0]["function"]["name"] == answer["name"] == "forecast"


def test_a_user_message_comes_behind_an_answer() -> None:
    assert roles(added("user_message", [USER])) == ["assistant", "user"]


def test_behind_an_answer_the_user_speaks_first() -> None:
    assert roles(added("user_message", [USER, ANSWER])) == ["user"]
    assert roles(added("assistant_answer", [USER, ANSWER])) == ["user", "assistant"]


def test_where_nobody_has_asked_yet_the_user_does() -> None:
    assert roles(added("assistant_answer", [{"role": "system", "content": "Be brief."}])) == ["user", "assistant"]


def test_awaited_results_come_first() -> None:
    messages = [USER, called()]
    assert roles(added("tool_call", messages)) == ["tool"]
    assert roles(added("assistant_answer", messages)) == ["tool", "assistant"]
    assert roles(added("user_message", messages)) == ["tool", "assistant", "user"]
    assert added("tool_call", messages)[0]["tool_call_id"] == "call00001"


def test_every_call_gets_its_result() -> None:
    parallel = {**called(), "tool_calls": [*called()["tool_calls"], {**called()["tool_calls"][0], "id": "call00002"}]}
    assert [m["tool_call_id"] for m in added("tool_call", [USER, parallel])] == ["call00001", "call00002"]


def test_regenerating_is_the_same_request_again() -> None:
    assert named("regenerate", [USER]).messages == [USER]


def test_regenerating_takes_back_an_answer() -> None:
    assert named("regenerate", [USER, ANSWER]).messages == [USER]


def test_an_edit_replaces_the_last_user_message_and_drops_what_follows_it() -> None:
    edited = named("edit_last_user", [USER, ANSWER, USER, called(), result()])
    assert edited.common == 2
    assert edited.messages[:2] == [USER, ANSWER]
    assert roles(edited.messages[2:]) == ["user"]


def test_what_cannot_be_is_left_out() -> None:
    assert "edit_last_user" not in [c.name for c in continuations([{"role": "system", "content": "Hm."}])]
    assert "regenerate" not in [c.name for c in continuations([ANSWER])]


@given(st.text())
def test_an_edit_differs_from_the_first_character_on_even_if_it_is_trimmed(text: str) -> None:
    edit = named("edit_last_user", [{"role": "user", "content": text}]).messages[0]["content"]
    assert edit[:1] != text[:1]
    assert edit[:1] != text.strip()[:1]


def test_an_edit_leaves_media_alone() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    message = {"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]}
    shown, text = named("edit_last_user", [message]).messages[0]["content"]
    assert shown == image
    assert text["text"] != "What is this?"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_comes_in_the_conversations_own_field(field: str) -> None:
    (answer,) = added("assistant_answer_with_reasoning", [USER, {**ANSWER, field: "Hm."}, USER])
    assert set(answer) == {"role", "content", field}


def test_reasoning_comes_inside_the_text_where_it_did_before() -> None:
    messages = [USER, {**ANSWER, "content": "<think>Hm.</think>Two hours."}, USER]
    (answer,) = added("assistant_answer_with_reasoning", messages)
    assert answer["content"].startswith("<think>")
    assert set(answer) == {"role", "content"}


def test_answers_have_no_reasoning_where_earlier_ones_had_none() -> None:
    assert not any("reasoning_content" in message for message in added("user_message", [USER, ANSWER, USER]))
    assert not any("reasoning_content" in message for message in added("tool_call", [USER, ANSWER, USER]))


def test_the_first_answer_is_taken_to_have_reasoning() -> None:
    assert "reasoning_content" in added("user_message", [USER])[0]
    assert "reasoning_content" in added("tool_call", [USER])[0]


def test_reasoning_can_be_given_to_an_answer_that_has_none() -> None:
    plain = named("user_message", [USER, ANSWER, USER])
    thinking = plain.with_reasoning()
    assert thinking is not None
    assert thinking.messages[3]["reasoning_content"]
    assert thinking.with_reasoning() is None


def test_arguments_are_json_text_where_they_were_before() -> None:
    call, _ = added("tool_call", [USER, called(arguments="{}"), result(), ANSWER, USER])
    assert json.loads(call["tool_calls"][0]["function"]["arguments"])


def test_calls_are_flat_where_they_were_before() -> None:
    flat = {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "name": "route", "arguments": {}}]}
    call, _ = added("tool_call", [USER, flat, result(), ANSWER, USER])
    assert set(call["tool_calls"][0]) == {"id", "name", "arguments"}


def test_content_beside_a_call_is_null_where_it_was_before() -> None:
    call, _ = added("tool_call", [USER, {**called(), "content": None}, result(), ANSWER, USER])
    assert call["content"] is None


def test_texts_are_lists_of_parts_where_they_were_before() -> None:
    messages = [
        {**message, "content": [{"type": "text", "text": message["content"]}]} for message in (USER, ANSWER, USER)
    ]
    answer, user = added("user_message", messages)
    assert answer["content"][0]["type"] == user["content"][0]["type"] == "text"


def test_the_present_messages_stay_as_they_are() -> None:
    messages = sample_messages()
    for continuation in continuations(messages, sample_tools()):
        assert continuation.messages[: continuation.common] == sample_messages()[: continuation.common]
    assert messages == sample_messages()


def test_two_turns_end_with_the_user() -> None:
    assert roles(two_turns([USER])[1:]) == ["assistant", "user", "assistant", "user"]
