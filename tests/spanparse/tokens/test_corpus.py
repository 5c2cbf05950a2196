"""The bundled templates on real vocabularies, and on that of the tiny models, which has all their control tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spanparse import Rendering, TemplateRefused, TemplateSource, load_source, parse
from spanparse.sources import bundled_names
from spanparse.tokens import Backend, HuggingFaceTokenizer, LlamaVocabulary, token_map

CONVERSATIONS = Path(__file__).parents[3] / "fixtures" / "conversations"

# Templates whose control tokens the vocabulary has, then others: there, what they write is text.
PAIRS = [
    # Five of gpt-oss's markers are user-defined here: llama.cpp finds them even in text without special tokens.
    ("tiny.gguf", ["gpt-oss", "deepseek"]),
    ("tiny", ["gpt-oss", "mistral-v7"]),
    ("qwen3", ["chatml", "qwen3-coder", "llama3"]),
    ("gptoss", ["gpt-oss", "gemma4"]),
    ("qwen35.gguf", ["chatml", "qwen3-coder", "mistral-v7"]),
    ("deepseek-llm.gguf", ["deepseek", "chatml"]),
    ("phi-3.gguf", ["mistral-v3", "gpt-oss"]),
    ("gpt-2.gguf", ["gemma3"]),
]
CASES = [(vocabulary, template) for vocabulary, templates in PAIRS for template in templates]
OPENED_BY_CONTROL_TOKENS = [("qwen3", "chatml"), ("qwen3", "qwen3-coder"), ("gptoss", "gpt-oss")]

Load = Callable[[str], Backend]


def renderings(template: TemplateSource, quote: str = "") -> Iterator[Rendering]:
    """Every fixture conversation that the template accepts, with `quote` after each text the caller wrote."""
    for path in sorted(CONVERSATIONS.glob("*.json")):
        conversation = json.loads(path.read_text(encoding="utf-8"))
        for message in conversation["messages"]:
            if isinstance(message.get("content"), str):
                message["content"] += quote
        # Special tokens are the model's own, as its configuration gives them to the source.
        kwargs = conversation.get("kwargs") or {}
        special = {name: value for name, value in kwargs.items() if name in ("bos_token", "eos_token")}
        try:
            yield parse(
                replace(template, special_tokens=special),
                conversation["messages"],
                tools=conversation.get("tools"),
                kwargs=kwargs,
                verify=False,
            )
        except TemplateRefused:
            continue


@pytest.mark.parametrize(("vocabulary", "name"), CASES)
def test_conversations_that_quote_no_control_token_have_the_ordinary_ids(
    load: Load, vocabulary: str, name: str
) -> None:
    backend, template = load(vocabulary), load_source(name)
    for rendering in renderings(template):
        tokens = token_map(rendering, backend, template=template.text)
        assert tokens.ids[tokens.bos_added :] == backend.encode(rendering.text, special=True)


@pytest.mark.parametrize(("vocabulary", "name"), CASES)
def test_offsets_are_proven_and_begin_what_the_tokens_spell(load: Load, vocabulary: str, name: str) -> None:
    backend, template = load(vocabulary), load_source(name)
    for rendering in renderings(template, quote=" naïve 日本語 👩‍👩‍👧\u200b\u0300…"):
        tokens = token_map(rendering, backend, template=template.text)
        assert tokens.exact
        for id, offset in zip(tokens.ids[tokens.bos_added :], tokens.offsets[tokens.bos_added :], strict=True):
            piece = backend.pieces[id]
            # A dummy space is in the piece and not in the text.
            spellings = [piece, piece[1:]] if piece.startswith(b" ") else [piece]
            begins_code_point = piece[0] & 0xC0 != 0x80
            following = rendering.text[offset : offset + len(piece)].encode()
            assert not begins_code_point or following.startswith(tuple(spellings))


@pytest.mark.parametrize(("vocabulary", "name"), CASES)
def test_conversations_that_quote_every_control_token_have_them_as_text(load: Load, vocabulary: str, name: str) -> None:
    backend, template = load(vocabulary), load_source(name)
    control = backend.added.control_ids
    quote = "".join(token.text for token in backend.added.values() if token.id in control)
    for plain, quoting in zip(renderings(template), renderings(template, quote), strict=True):
        expected = token_map(plain, backend, template=template.text)
        tokens = token_map(quoting, backend, template=template.text)
        assert sum(map(control.__contains__, tokens.ids)) == sum(map(control.__contains__, expected.ids))
        assert len(tokens.barriers) == len(expected.barriers)


@pytest.mark.parametrize("name", bundled_names())
def test_both_backends_map_a_conversation_alike(
    tiny: HuggingFaceTokenizer, tiny_gguf: LlamaVocabulary, name: str
) -> None:
    template = load_source(name)
    for rendering in renderings(template, quote="<|im_end|> naïve 日本語"):
        here, there = (token_map(rendering, backend, template=template.text) for backend in (tiny, tiny_gguf))
        assert (here.ids, here.offsets, here.barriers) == (there.ids, there.offsets, there.barriers)


@pytest.mark.parametrize("name", bundled_names())
def test_tokens_before_a_barrier_stay_when_the_conversation_goes_on(tiny: HuggingFaceTokenizer, name: str) -> None:
    template = load_source(name)
    compared = 0
    for messages, tools in growing(template):
        shorter, longer = (parse(template, part, tools=tools, verify=False) for part in (messages[:-1], messages))
        before, after = (token_map(r, tiny, template=template.text) for r in (shorter, longer))
        for barrier in before.barriers:
            if longer.text.startswith(shorter.text[: barrier.offset]):
                assert before.ids[: barrier.token] == after.ids[: barrier.token]
                compared += 1
    assert compared > 10


def growing(template: TemplateSource) -> Iterator[tuple[list[Any], list[Any] | None]]:
    """Each beginning of the template's own fixture conversation that it accepts with and without its last message."""
    conversation = json.loads((CONVERSATIONS / f"{template.source}.json").read_text(encoding="utf-8"))
    messages, tools = conversation["messages"], conversation.get("tools")
    for end in range(2, len(messages) + 1):
        try:
            parse(template, messages[: end - 1], tools=tools)
            parse(template, messages[:end], tools=tools)
        except TemplateRefused:
            continue
        yield messages[:end], tools


@pytest.mark.parametrize(("vocabulary", "name"), OPENED_BY_CONTROL_TOKENS)
def test_templates_that_open_turns_with_control_tokens_have_exact_barriers(
    load: Load, vocabulary: str, name: str
) -> None:
    template = load_source(name)
    for rendering in renderings(template):
        tokens = token_map(rendering, load(vocabulary), template=template.text)
        assert [barrier.backed_off for barrier in tokens.barriers] == [0] * len(rendering.barriers)
