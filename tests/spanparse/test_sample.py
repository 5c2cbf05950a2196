from __future__ import annotations

from typing import Any

import pytest

from spanparse.conversation import check_messages, check_tools
from spanparse.errors import TemplateRefused
from spanparse.rendering.render import Request, render_plain
from spanparse.sample import fit, sample_messages, sample_tools
from spanparse.sources import bundled_names, bundled_template

Messages = list[dict[str, Any]]
Tools = list[dict[str, Any]] | None


def refuse(why: str) -> None:
    raise TemplateRefused("strict", why)


def roles(messages: Messages) -> set[str]:
    return {message["role"] for message in messages}


def test_the_sample_is_a_valid_conversation() -> None:
    assert check_messages(sample_messages())
    assert check_tools(sample_tools())


def test_the_sample_ends_in_a_tool_loop_after_a_second_user_message() -> None:
    order = [message["role"] for message in sample_messages()]
    assert order.count("user") == 2
    assert order[-2:] == ["assistant", "tool"]


def test_every_call_of_the_sample_is_answered() -> None:
    calls = [call["id"] for message in sample_messages() for call in message.get("tool_calls", [])]
    assert calls == [message["tool_call_id"] for message in sample_messages() if message["role"] == "tool"]


def test_changing_one_copy_of_the_sample_leaves_the_next_untouched() -> None:
    sample_messages()[0]["content"] = "changed"
    sample_tools()[0]["function"]["name"] = "changed"
    assert sample_messages()[0]["content"] != "changed"
    assert sample_tools()[0]["function"]["name"] != "changed"


def test_a_template_that_accepts_everything_gets_the_whole_sample() -> None:
    sample = fit(lambda messages, tools: None)
    assert sample == (sample_messages(), sample_tools(), None)


def test_a_template_without_tools_keeps_the_tool_messages() -> None:
    sample = fit(lambda messages, tools: refuse("tools") if tools else None)
    assert sample.tools is None
    assert sample.messages == sample_messages()
    assert sample.cut == "The sample conversation is shown without tools, which this template refuses."


def test_a_template_without_tool_messages_keeps_the_answers() -> None:
    sample = fit(lambda messages, tools: refuse("tool") if "tool" in roles(messages) else None)
    assert [message["role"] for message in sample.messages] == ["system", "user", "assistant", "user"]
    assert sample.tools == sample_tools()


def test_a_template_without_a_system_message_keeps_the_rest() -> None:
    sample = fit(lambda messages, tools: refuse("system") if "system" in roles(messages) else None)
    assert sample.messages == sample_messages()[1:]


def test_the_sentence_lists_all_that_was_cut() -> None:
    def render(messages: Messages, tools: Tools) -> None:
        if tools or {"system", "tool"} & roles(messages):
            refuse("too much")

    assert fit(render).cut == (
        "The sample conversation is shown without tools, tool messages and system message, which this template refuses."
    )


def test_a_template_that_takes_no_text_is_offered_lists_of_parts() -> None:
    sample = fit(lambda messages, tools: refuse("text") if isinstance(messages[0]["content"], str) else None)
    assert [part["text"] for message in sample.messages for part in message["content"]] == [
        message["content"] for message in sample_messages()
    ]
    assert sample.cut == "The sample conversation is shown with lists of parts as content."


def test_a_template_for_one_message_gets_one_user_message() -> None:
    sample = fit(lambda messages, tools: refuse("long") if len(messages) > 1 else None)
    assert roles(sample.messages) == {"user"}
    assert sample.cut == "The sample is cut down to one user message; this template refuses the rest: long"


def test_a_template_that_refuses_even_one_user_message_raises_its_refusal() -> None:
    with pytest.raises(TemplateRefused, match="never"):
        fit(lambda messages, tools: refuse("never"))


def test_only_a_refusal_counts_as_one() -> None:
    def render(messages: Messages, tools: Tools) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(render)


@pytest.mark.parametrize("name", sorted({*bundled_names()} - {"gemma3"}))
def test_a_bundled_template_accepts_the_whole_sample(name: str) -> None:
    assert fit(lambda messages, tools: render_plain(bundled_template(name), Request(messages, tools))).cut is None


def test_gemma3_which_has_no_tools_gets_the_sample_without_tool_messages() -> None:
    sample = fit(lambda messages, tools: render_plain(bundled_template("gemma3"), Request(messages, tools)))
    assert sample.cut == "The sample conversation is shown without tool messages, which this template refuses."
