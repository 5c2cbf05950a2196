"""Kept tokens of prompts with media: what the token lists of this prompt and the next one share."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.tiny import vocabulary
from spanparse import TemplateRefused, load_source, parse_request, predict, predict_rendering, request_of
from spanparse.media import find_placeholders
from spanparse.prediction.continuation import continuations
from spanparse.tokens import HuggingFaceTokenizer, TokenMap, token_map
from spanparse.tokens.media import Expansion, Insertion, media_chunk, text_chunk

BACKEND = HuggingFaceTokenizer(vocabulary.hf_tokenizer())
IMAGE = {"type": "image"}
MESSAGES = [
    {"role": "system", "content": "You see."},
    {"role": "user", "content": [{"type": "text", "text": "What is it? "}, IMAGE]},
    {"role": "assistant", "content": "A bird.", "reasoning_content": "It has wings."},
    {"role": "user", "content": [IMAGE, {"type": "text", "text": " And this?"}, IMAGE]},
]


def filled(template: Any, messages: list[dict[str, Any]]) -> TokenMap:
    rendering = parse_request(template, request_of(template, messages))
    found = find_placeholders(rendering)
    media = [
        Insertion(each.start, each.end, *each.place, each.index, expansion(number)) for number, each in enumerate(found)
    ]
    return token_map(rendering, BACKEND, template=template.text, media=media)


def expansion(number: int) -> Expansion:
    chunks = (text_chunk([1]), media_chunk(f"image {number}", 1, 20 + number, 5), text_chunk([2]))
    return Expansion(f"image {number}", chunks, exact=True)


@pytest.mark.parametrize("name", ["chatml", "gemma3", "gemma4", "llama3", "mistral-v7"])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_kept_tokens_are_those_that_the_filled_prompts_share(name: str, length: int) -> None:
    template = load_source(name)
    messages = MESSAGES[:length]
    request = request_of(template, messages)
    tokens = filled(template, messages)
    found = predict_rendering(parse_request(template, request), template, request, backend=BACKEND, tokens=tokens)
    assert found.prompt_tokens == tokens.count
    outcomes = {outcome.name: outcome for outcome in found.continuations}
    for continuation in continuations(messages, None):
        outcome = outcomes[continuation.name]
        try:
            following = filled(template, continuation.messages)
        except TemplateRefused:
            assert outcome.kept_tokens is None
            continue
        shared = next(
            (n for n, (a, b) in enumerate(zip(tokens.ids, following.ids, strict=False)) if a != b),
            min(tokens.count, following.count),
        )
        # Equal ids behind the divergence are no shared text.
        assert outcome.kept_tokens is not None
        assert outcome.kept_tokens <= shared
        assert outcome.lost_tokens == tokens.count - outcome.kept_tokens
        assert shared - outcome.kept_tokens <= 2


def test_tokens_are_unknown_where_the_length_of_media_is() -> None:
    found = predict(load_source("chatml"), MESSAGES, backend=BACKEND)
    assert found.prompt_tokens is None
    assert {outcome.kept_tokens for outcome in found.continuations} == {None}
