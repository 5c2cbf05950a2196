"""Shapes that only the held-out templates and those from elsewhere meet, so that no rule is tuned on them."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.audit.literals import control_tokens
from tests.audit.shapes import building as make
from tests.audit.shapes.building import Builder, Conversation, Message, register_in
from tests.audit.vocabulary import Words

HELD_OUT_SHAPES: Final[dict[str, Builder]] = {}
"""The shapes by name."""

shape = register_in(HELD_OUT_SHAPES)


def _developer(w: Words) -> Message:
    return make.message("developer", w.text())


@shape("developer, two users, two answers")
def _developer_first(w: Words, template: str) -> Conversation:
    return Conversation([_developer(w), make.user(w), make.user(w), make.assistant(w), make.assistant(w), make.user(w)])


@shape("developer between turns")
def _developer_between(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w), make.user(w), make.assistant(w), _developer(w), make.user(w)])


@shape("system at the end")
def _system_at_the_end(w: Words, template: str) -> Conversation:
    return Conversation([make.user(w), make.assistant(w), make.user(w), make.system(w)])


@shape("system, assistant")
def _system_assistant(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w), make.assistant(w), make.user(w)])


@shape("three systems, the last between turns")
def _three_systems(w: Words, template: str) -> Conversation:
    return Conversation([make.system(w), make.system(w), make.user(w), make.system(w), make.assistant(w), make.user(w)])


@shape("thirty turns")
def _thirty_turns(w: Words, template: str) -> Conversation:
    turns = [message for _ in range(15) for message in (make.user(w), make.assistant(w))]
    return Conversation([make.system(w), *turns, make.user(w)])


@shape("names on messages")
def _names(w: Words, template: str) -> Conversation:
    return Conversation(
        [
            make.message("system", w.text(), name=w.one()),
            make.message("user", w.text(), name=w.one()),
            make.message("assistant", w.text(), name=w.one()),
            make.message("user", w.text(), name=w.one()),
        ]
    )


@shape("a result without an answer, then a question")
def _unanswered(w: Words, template: str) -> Conversation:
    call = make.call(w)
    messages = [make.user(w), make.calling(w, [call]), make.result(w, call), make.user(w), make.assistant(w)]
    return Conversation(messages, [make.schema(w, call)])


@shape("calls in three messages in a row")
def _calls_in_a_row(w: Words, template: str) -> Conversation:
    calls = [make.call(w, number) for number in range(3)]
    messages = [make.user(w)]
    for call, said in zip(calls, (w.text(), "", w.text()), strict=True):
        messages += [make.calling(w, [call], said), make.result(w, call)]
    return Conversation([*messages, make.assistant(w)], [make.schema(w, call) for call in calls])


@shape("parallel calls with text and reasoning, twice")
def _rounds(w: Words, template: str) -> Conversation:
    messages = [make.system(w), make.user(w)]
    tools = []
    for number in (1, 4):
        calls = [make.call(w, number), make.call(w, number + 1)]
        tools += [make.schema(w, call) for call in calls]
        messages.append(make.calling(w, calls, w.text(), reasoning_content=w.text()))
        messages += [make.result(w, call) for call in calls]
    return Conversation([*messages, make.assistant(w), make.user(w)], tools)


@shape("reasoning beside a call, none beside the next")
def _reasoning_left_out(w: Words, template: str) -> Conversation:
    first, second = make.call(w, 1), make.call(w, 2)
    return Conversation(
        [
            make.user(w),
            make.calling(w, [first], reasoning_content=w.text()),
            make.result(w, first),
            make.calling(w, [second], w.text()),
            make.result(w, second),
            make.assistant(w, reasoning_content=w.text()),
            make.user(w),
            make.assistant(w),
        ],
        [make.schema(w, first), make.schema(w, second)],
    )


@shape("reasoning without an answer")
def _reasoning_alone(w: Words, template: str) -> Conversation:
    thinking = make.message("assistant", "", reasoning_content=w.text())
    return Conversation([make.user(w), thinking, make.user(w), make.assistant(w, reasoning_content="")])


@shape("blank reasoning")
def _blank_reasoning(w: Words, template: str) -> Conversation:
    answers = [make.assistant(w, reasoning_content=text) for text in ("\n", "  ", "")]
    return Conversation([message for answer in answers for message in (make.user(w), answer)])


@shape("reasoning that is never closed")
def _unclosed(w: Words, template: str) -> Conversation:
    return Conversation(
        [
            make.user(w),
            make.message("assistant", f"<think>{w.text()}"),
            make.message("user", f"{w.one()}</think>{w.one()}"),
            make.message("assistant", f"{w.one()}</think>"),
            make.user(w),
        ]
    )


@shape("empty results")
def _empty_results(w: Words, template: str) -> Conversation:
    calls = [make.call(w, 1), make.call(w, 2)]
    messages = [make.user(w), make.calling(w, calls), make.result(w, calls[0], ""), make.result(w, calls[1], " \n")]
    return Conversation([*messages, make.message("assistant", ""), make.user(w)], [make.schema(w, c) for c in calls])


@shape("lists with empty texts")
def _empty_parts(w: Words, template: str) -> Conversation:
    empty = {"type": "text", "text": ""}
    return Conversation(
        [
            make.message("system", [empty]),
            make.message("user", [empty, make.text(w)]),
            make.message("assistant", [make.text(w), empty, make.text(w)]),
            make.message("user", [make.text(w), empty]),
        ]
    )


@shape("lists without parts")
def _no_parts(w: Words, template: str) -> Conversation:
    return Conversation([make.message("system", []), make.user(w), make.message("assistant", []), make.user(w)])


@shape("every text empty")
def _nothing(w: Words, template: str) -> Conversation:
    return Conversation([make.message(role, "") for role in ("system", "user", "assistant", "user")])


@shape("long ids")
def _long_ids(w: Words, template: str) -> Conversation:
    calls = [make.call(w, number) for number in (1, 2)]
    for number, call in enumerate(calls):
        call["id"] = f"chatcmpl-tool-{number}{w.one()}{'0123456789abcdef' * 4}"
    messages = [make.user(w), make.calling(w, calls, w.text()), *(make.result(w, call) for call in calls)]
    return Conversation([*messages, make.assistant(w)], [make.schema(w, call) for call in calls])


@shape("control tokens in arguments and results")
def _tokens_in_calls(w: Words, template: str) -> Conversation:
    tokens = "".join(control_tokens(template)[:6]) or "<|im_end|>"
    call = make.call(w, arguments={w.one(): f"{w.one()}{tokens}{w.one()}"})
    messages = [make.user(w), make.calling(w, [call]), make.result(w, call, f"{tokens}{w.one()}{tokens}")]
    return Conversation([*messages, make.assistant(w), make.user(w)], [make.schema(w, call)])


@shape("calls without tools, with arguments as text")
def _bare_text_arguments(w: Words, template: str) -> Conversation:
    call = make.call(w, arguments=json.dumps({w.one(): [w.one(), 1]}))
    return Conversation([make.user(w), make.calling(w, [call], None), make.result(w, call), make.assistant(w)])


@shape("tools that say little")
def _bare_tools(w: Words, template: str) -> Conversation:
    def bare(**more: Any) -> dict[str, Any]:
        return {"type": "function", "function": {"name": w.one(), "description": w.one(), **more}}

    flag = {"type": "object", "properties": {w.one(): {"type": "boolean", "description": ""}}, "required": []}
    return Conversation([make.user(w), make.assistant(w), make.user(w)], [bare(parameters=flag), bare(parameters=flag)])


@shape("tools beside a developer")
def _developer_tools(w: Words, template: str) -> Conversation:
    call = make.call(w)
    messages = [_developer(w), make.user(w), make.calling(w, [call]), make.result(w, call), make.assistant(w)]
    return Conversation(messages, [make.schema(w, call)])


@shape("scripts of all kinds")
def _scripts(w: Words, template: str) -> Conversation:
    odd = ("שלום\u200f", "👩‍👩‍👧‍👦🏴‍☠️", "a\u0300\u0323ﷺ", "｜▁\u3000", "𝔘𝔫𝔦 \u00ad\u2060")
    roles = ("system", "user", "assistant", "user", "assistant")
    return Conversation([make.message(role, text + w.one() + text) for role, text in zip(roles, odd, strict=True)])


@shape("white space of all kinds around texts")
def _white(w: Words, template: str) -> Conversation:
    odd = ("\r\n", "\u00a0", "\t\t", "\u2003\n", "\n\n\n\n")
    roles = ("system", "user", "assistant", "user", "assistant")
    return Conversation([make.message(role, white + w.text() + white) for role, white in zip(roles, odd, strict=True)])


@shape("numbers and punctuation")
def _numbers(w: Words, template: str) -> Conversation:
    texts = ("0", "1.", "-", "?", "...")
    roles = ("system", "user", "assistant", "user", "assistant")
    return Conversation([make.message(role, text) for role, text in zip(roles, texts, strict=True)])


@shape("texts that begin like a turn")
def _like_turns(w: Words, template: str) -> Conversation:
    roles = ("system", "user", "assistant", "user")
    return Conversation([make.message(role, f"{role}: {w.text()}\n\nUser: {w.one()}\nassistant\n") for role in roles])
