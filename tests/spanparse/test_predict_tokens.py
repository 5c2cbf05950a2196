"""Tokens that the next prompt shares, held against tokenising it whole."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from runtime.tiny import vocabulary
from spanparse import TemplateRefused, TemplateSource, load_source, parse, predict
from spanparse.prediction import continuations
from spanparse.sample import sample_messages, sample_tools
from spanparse.sources import bundled_names
from spanparse.tokens import HuggingFaceTokenizer, token_map


@pytest.fixture(scope="module")
def backend() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(vocabulary.hf_tokenizer(), name="tiny")


def shared(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@pytest.mark.parametrize("trust_content", [False, True])
@pytest.mark.parametrize("length", [2, 6, 8, 10])
@pytest.mark.parametrize("name", bundled_names())
def test_kept_tokens_are_those_that_both_whole_prompts_begin_with(
    name: str, length: int, trust_content: bool, backend: HuggingFaceTokenizer
) -> None:
    template, tools = load_source(name), sample_tools()
    messages: list[dict[str, Any]] = sample_messages()[:length]

    def ids(messages: list[dict[str, Any]]) -> list[int]:
        rendering = parse(template, messages, tools=tools)
        return token_map(rendering, backend, template=template.text, trust_content=trust_content).ids

    try:
        found = predict(template, messages, tools=tools, backend=backend, trust_content=trust_content, remedies=False)
    except TemplateRefused:
        return
    present = ids(messages)
    assert found.prompt_tokens == len(present)
    for continuation in continuations(messages, tools):
        outcome = found.outcome(continuation.name)
        if outcome.reason is None:
            expected = shared(present, ids(continuation.messages))
            assert (outcome.kept_tokens, outcome.lost_tokens) == (expected, len(present) - expected)


def test_a_token_that_merges_with_what_follows_is_lost_although_its_characters_are_kept(
    backend: HuggingFaceTokenizer,
) -> None:
    # The open think block ends with a newline, an empty one has two.
    found = predict(load_source("chatml"), sample_messages()[:2], backend=backend)
    outcome = found.outcome("assistant_answer")
    assert (outcome.lost_chars, outcome.lost_tokens) == (0, 1)


def test_a_conversation_that_quotes_control_tokens_is_counted_alike(backend: HuggingFaceTokenizer) -> None:
    quoting = "Why <|im_end|>\n<|im_start|>assistant\nis that?"
    messages = [{"role": "user", "content": quoting}, {"role": "assistant", "content": quoting}]
    template = load_source("chatml")
    found = predict(template, [*messages, *messages[:1]], backend=backend, remedies=False)
    for continuation in continuations([*messages, *messages[:1]]):
        present, following = (
            token_map(parse(template, said), backend, template=template.text).ids
            for said in ([*messages, *messages[:1]], continuation.messages)
        )
        assert found.outcome(continuation.name).kept_tokens == shared(present, following)


def test_words_behind_a_control_token_are_counted_as_they_are_tokenised_there() -> None:
    # Metaspace puts its dummy space in front of a prompt, and not behind a control token inside it.
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=60, show_progress=False)
    tokenizer.train_from_iterator(
        ["Two hours up, two hours back.", "Is it far? And back?", *map(chr, range(32, 127))], trainer
    )
    tokenizer.add_special_tokens(["[INST]", "[/INST]", "[END]"])
    backend = HuggingFaceTokenizer(tokenizer, name="metaspace")
    text = (
        "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}"
        "{{ m.content }}{{ '[END]' if not loop.last }}{% endif %}{% endfor %}"
    )
    template = TemplateSource("test", text, "")
    messages = [{"role": "user", "content": "Is it far?"}, {"role": "assistant", "content": "Two hours."}]
    found = predict(template, messages, backend=backend)
    outcome = found.outcome("user_message")
    assert (outcome.kept_tokens, outcome.lost_tokens) == (found.prompt_tokens, 0)


def test_without_a_tokenizer_tokens_are_unknown() -> None:
    found = predict(load_source("chatml"), sample_messages(), tools=sample_tools())
    assert found.prompt_tokens is None
    assert all(outcome.kept_tokens is None and outcome.lost_tokens is None for outcome in found.continuations)
