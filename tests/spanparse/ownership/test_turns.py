"""Turns and parts: which messages share a turn, what its header and trailer are, and what belongs to no call."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from spanparse import Note, Rendering, TemplateSource, parse

Message = dict[str, Any]
LOOK = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}
USER, ANSWER = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}
CALL = {"role": "assistant", "content": "", "tool_calls": [LOOK]}
RESULT = {"role": "tool", "content": "4"}
EMPTY = {"role": "assistant", "content": ""}


def render(template: str, *messages: Message, tools: list[dict[str, Any]] | None = None) -> Rendering:
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    rendering = parse(source, list(messages), tools=tools, add_generation_prompt=False)
    assert rendering.exact
    return rendering


def parts(template: str, *messages: Message) -> list[tuple[int, str, str]]:
    """(message, kind, text) of every part, message by message."""
    rendering = render(template, *messages)
    return [(m.index, p.kind, rendering.text[p.start : p.end]) for m in rendering.messages for p in m.parts]


def merged(template: str, *messages: Message) -> list[int]:
    return [m.index for m in render(template, *messages).messages if Note("merged") in m.notes]


def test_a_header_made_of_the_role_begins_a_turn_of_a_tool_result_too() -> None:
    template = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
    assert merged(template, USER, RESULT, ANSWER) == []
    assert parts(template, USER, RESULT)[3:] == [
        (1, "header", "<|tool|>"),
        (1, "tool_result", "4"),
        (1, "trailer", "<|end|>"),
    ]


@pytest.mark.parametrize("role", ["tool", "ipython", "function"])
def test_what_a_tool_says_is_a_result_whatever_its_role_is_called(role: str) -> None:
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    assert parts(template, USER, {**RESULT, "role": role})[4] == (1, "tool_result", "4")


def test_plain_words_made_of_the_role_begin_a_turn() -> None:
    template = (
        "{% for m in messages %}{{ 'human' if m.role == 'user' else m.role }}: {{ m.content }} <sep> {% endfor %}"
    )
    assert merged(template, USER, RESULT, ANSWER) == []


@pytest.mark.parametrize(("opening", "closing"), [("[THINK]", "[/THINK]"), ("<think>\n", "</think>")])
def test_what_wraps_reasoning_is_no_header_that_others_lack(opening: str, closing: str) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}"
        f"{{% if m.reasoning_content %}}{{{{ {opening!r} + m.reasoning_content + {closing!r} }}}}{{% endif %}}"
        "{{ m.content + '</s>' }}{% endif %}{% endfor %}"
    )
    thoughtful = {**ANSWER, "reasoning_content": "so"}
    assert merged(template, USER, thoughtful, USER, ANSWER) == []
    assert parts(template, USER, thoughtful, USER, ANSWER)[-4:] == [
        (2, "content", "hi"),
        (2, "trailer", "[/INST]"),
        (3, "content", "yes"),
        (3, "trailer", "</s>"),
    ]


def test_a_header_of_words_is_learned_without_the_reasoning_or_call_behind_it() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<role>ASKS</role>{{ m.content }}{% else %}"
        "<role>SAYS</role>{% if m.tool_calls %}<tool_call>\n{{ m.tool_calls[0].function.name }}</tool_call>"
        "{% else %}\n<think>\n\n</think>\n{{ m.content }}{% endif %}{% endif %}{% endfor %}"
    )
    assert merged(template, USER, CALL, USER, ANSWER) == []
    assert (1, "header", "<role>SAYS</role><tool_call>\n") in parts(template, USER, CALL, USER)


RESULTS_AS_USER = (
    "{% for m in messages %}{% if m.role == 'tool' %}<|user|><results>{{ m.content }}</results>"
    "{% elif m.role == 'user' %}<|user|>{{ m.content }}{% elif m.tool_calls %}"
    "<|assistant|><calls>{{ m.tool_calls[0].function.name }}</calls></s>"
    "{% else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"
)


def test_tool_results_behind_the_end_of_a_turn_are_not_in_it_though_the_answer_goes_on_behind_them() -> None:
    assert merged(RESULTS_AS_USER, USER, CALL, RESULT, CALL, RESULT, ANSWER) == [4, 5]
    assert parts(RESULTS_AS_USER, USER, CALL, RESULT, CALL, RESULT, ANSWER)[4:9] == [
        (1, "trailer", "</calls></s>"),
        (2, "header", "<|user|><results>"),
        (2, "tool_result", "4"),
        (2, "trailer", "</results>"),
        (3, "header", "<|assistant|><calls>"),
    ]


def test_an_answer_behind_the_end_of_another_is_in_no_turn_with_it() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|><|assistant|>"
        "{% else %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}"
    )
    assert merged(template, USER, ANSWER, ANSWER) == []


CHATML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
INST = (
    "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("more", [(), (ANSWER, USER)])
def test_a_system_text_shares_the_turn_of_the_first_user_message_whether_or_not_others_follow(
    more: tuple[Message, ...],
) -> None:
    template = (
        "{% for m in messages if m.role != 'system' %}<|h|>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ messages[0].content ~ '\n\n' if loop.first and messages[0].role == 'system' }}"
        "{{ m.content }}<|end|>{% endfor %}"
    )
    system = {"role": "system", "content": "Be kind"}
    assert merged(template, system, USER, *more) == [0, 1]
    assert parts(template, system, USER, *more)[:5] == [
        (0, "header", "<|h|>user\n"),
        (0, "content", "Be kind"),
        (1, "delimiter", "\n\n"),
        (1, "content", "hi"),
        (1, "trailer", "<|end|>"),
    ]


def test_a_system_text_that_is_closed_shares_no_turn() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'system' %}[SYS]{{ m.content }}[/SYS]{% else %}{{ m.content }}</s>"
        "{% endif %}{% endfor %}"
    )
    assert merged(template, {"role": "system", "content": "Be kind"}, USER) == []


def test_the_end_of_an_empty_message_is_its_trailer() -> None:
    assert parts(CHATML, USER, EMPTY, USER)[3:5] == [
        (1, "header", "<|im_start|>assistant\n"),
        (1, "trailer", "<|im_end|>\n"),
    ]
    assert parts(INST, USER, EMPTY, USER)[3:4] == [(1, "trailer", "</s>")]


@pytest.mark.parametrize("content", ["", [{"type": "text", "text": "4"}]])
def test_a_result_that_shows_its_name_alone_ends_with_a_trailer(content: Any) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.name ~ ': ' if m.name }}"
        "{{ m.content if m.content is string }}{{ '<|im_end|>\n' }}{% endfor %}"
    )
    assert parts(template, USER, {**RESULT, "name": "look", "content": content}, ANSWER)[3:5] == [
        (1, "header", "<|im_start|>tool\nlook: "),
        (1, "trailer", "<|im_end|>\n"),
    ]


def test_what_follows_the_end_of_an_empty_message_is_in_its_trailer() -> None:
    assert parts(CHATML + "<|score|>", USER, EMPTY)[3:] == [
        (1, "header", "<|im_start|>assistant\n"),
        (1, "trailer", "<|im_end|>\n<|score|>"),
    ]


def test_what_closes_a_turn_that_was_just_opened_is_a_trailer() -> None:
    assert parts(INST, {**USER, "content": ""}, ANSWER)[:2] == [(0, "header", "[INST]"), (0, "trailer", "[/INST]")]


@pytest.mark.parametrize(
    ("opening", "closing"), [("<|response|>", "<|endofresponse|>"), ("<|im_start|>ai\n", "<eos>\n")]
)
def test_what_ends_an_empty_turn_is_a_trailer_by_its_name(opening: str, closing: str) -> None:
    template = f"{{% for m in messages %}}{{{{ {opening!r} ~ m.content ~ {closing!r} }}}}{{% endfor %}}"
    assert parts(template, USER, EMPTY)[3:] == [(1, "header", opening), (1, "trailer", closing)]


def test_a_turn_opened_behind_tools_by_a_message_that_says_nothing_is_not_in_its_trailer() -> None:
    template = (
        "{% for m in messages %}{{ '[TOOLS]' ~ tools | tojson ~ '[/TOOLS]' if m.role == 'user' }}"
        "{{ ('[INST]' ~ m.content ~ '[/INST]') if m.role == 'user' else m.content ~ '</s>' }}{% endfor %}"
    )
    rendering = render(template, {**USER, "content": ""}, ANSWER, tools=[{"type": "function"}])
    assert [(part.kind, rendering.text[part.start : part.end]) for part in rendering.messages[0].parts] == [
        ("header", "[TOOLS]"),
        ("tools", '[{"type": "function"}]'),
        ("delimiter", "[/TOOLS][INST]"),
        ("trailer", "[/INST]"),
    ]


def test_reasoning_that_is_closed_at_once_stays_in_the_header_of_an_empty_message() -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ '<think>\n\n</think>\n' if m.role == 'assistant' }}"
        "{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    assert parts(template, USER, EMPTY)[3:] == [
        (1, "header", "<|im_start|>assistant\n<think>\n\n</think>\n"),
        (1, "trailer", "<|im_end|>\n"),
    ]


def test_an_empty_message_in_whose_place_no_turn_ends_is_all_header() -> None:
    template = "{% for m in messages %}<|sh|>{{ m.role }}<|end_sh|>{{ m.content }}{% endfor %}"
    assert parts(template, USER, EMPTY)[2:] == [(1, "header", "<|sh|>assistant<|end_sh|>")]


def test_the_end_of_a_turn_is_no_calls_although_its_loop_writes_it() -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for call in m.tool_calls %}"
        "{{ '[' if loop.first }}{{ call.function.name }}"
        "{% if loop.last %}{{ ']<|im_end|>' + '\n' }}{% else %}, {% endif %}{% endfor %}"
        "{% if not m.tool_calls %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    )
    two = {**CALL, "tool_calls": [LOOK, LOOK]}
    expected = [
        (1, "header", "<|im_start|>assistant\n"),
        (1, "tool_call", "[look, "),
        (1, "tool_call", "look]"),
        (1, "trailer", "<|im_end|>\n"),
    ]
    assert parts(template, USER, two, USER)[3:7] == expected
    assert parts(template, USER, CALL, USER, two)[-4:] == [(3, *rest) for _, *rest in expected]


def test_a_marker_behind_tools_opens_the_turn_that_they_stand_in_front_of() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]"
        "{% elif m.role == 'user' %}{% if loop.index == 2 %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}"
        "[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    chat = [{"role": "system", "content": "be kind"}, USER, ANSWER, USER]
    rendering = render(template, *chat, tools=[{"type": "function", "function": {"name": "look"}}])
    assert [message.notes for message in rendering.messages] == [()] * 4
    assert [part.kind for part in rendering.messages[0].parts] == ["header", "content", "trailer"]
