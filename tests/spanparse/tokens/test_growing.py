"""A token map that begins with an earlier one is the map that would be made without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tiny.vocabulary import hf_tokenizer
from spanparse.spans import Rendering
from spanparse.tokens import Backend, HuggingFaceTokenizer, LlamaVocabulary, TokenMap, token_map

Chat = Callable[..., Rendering]
Small = dict[str, HuggingFaceTokenizer]
CHATML = {"opening": "<|im_start|>", "closing": "<|im_end|>"}
KINDS = [
    "byte-level",
    "byte-level, prefix space",
    "byte-level, stripping",
    "metaspace, first",
    "metaspace, always",
    "metaspace, never",
    "prepending normaliser",
]
PARTS = [
    "<|user|>",
    "<|end|>",
    "<s>",
    "</s>",
    "<｜User｜>",
    "<tool>",
    "<b>",
    "<|",
    "  \n",
    " ",
    "é",
    "日🙂",
    "hello.",
    "\n\n",
]
TEXT = st.lists(st.sampled_from(PARTS), max_size=4).map("".join)
TEMPLATES = st.sampled_from([None, "<|user|>", "<tool>"])
OPTIONS = st.fixed_dictionaries({"template": TEMPLATES, "trust_content": st.booleans(), "any_text": st.booleans()})
SEPARATORS = st.sampled_from(["", "\n", " ", "<tool>"])


@st.composite
def two_conversations(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """One after the other: it grew, was cut short, or was changed somewhere; or nothing of this or all of it."""
    before = draw(st.lists(TEXT, max_size=5))
    kept = draw(st.integers(0, len(before)))
    dropped = draw(st.integers(0, len(before) - kept))
    return before, [*before[:kept], *draw(st.lists(TEXT, max_size=2)), *before[kept + dropped :]]


def assert_alike(one: TokenMap, other: TokenMap) -> None:
    assert one == other
    mine, theirs = one.foundation.encoding, other.foundation.encoding
    assert (mine.cuts, mine.cut_tokens, mine.control) == (theirs.cuts, theirs.cut_tokens, theirs.control)
    assert mine.inexact_from == theirs.inexact_from


def check(backend: Backend, before: Rendering, after: Rendering, was: dict[str, Any], options: dict[str, Any]) -> None:
    first = token_map(before, backend, **was)
    untouched = list(first.ids)
    assert_alike(token_map(after, backend, previous=first, **options), token_map(after, backend, **options))
    assert first.ids == untouched


@pytest.mark.parametrize("kind", KINDS)
@given(chats=two_conversations(), separator=SEPARATORS, bos=st.booleans(), was=OPTIONS, options=OPTIONS)
def test_a_map_made_from_an_earlier_one_is_the_same(
    small: Small,
    chat: Chat,
    kind: str,
    chats: tuple[list[str], list[str]],
    separator: str,
    bos: bool,
    was: dict[str, Any],
    options: dict[str, Any],
) -> None:
    before, after = (chat(contents, bos="<s>" if bos else "", separator=separator) for contents in chats)
    check(small[kind], before, after, was, options)
    check(small[kind], before, after, options, options)


@given(chats=two_conversations(), separator=SEPARATORS, options=OPTIONS)
def test_a_map_of_llama_cpp_made_from_an_earlier_one_is_the_same(
    llama_spm: LlamaVocabulary,
    chat: Chat,
    chats: tuple[list[str], list[str]],
    separator: str,
    options: dict[str, Any],
) -> None:
    before, after = (chat(contents, separator=separator) for contents in chats)
    check(llama_spm, before, after, options, options)


@given(chats=two_conversations(), separator=SEPARATORS, options=OPTIONS)
def test_a_map_of_text_that_a_normaliser_changes_is_the_same_when_made_from_an_earlier_one(
    composing: HuggingFaceTokenizer,
    chat: Chat,
    chats: tuple[list[str], list[str]],
    separator: str,
    options: dict[str, Any],
) -> None:
    before, after = (
        chat([text.replace("é", "e\u0301") for text in contents], separator=separator) for contents in chats
    )
    check(composing, before, after, options, options)


REAL = [
    ("tiny", "<|im_start|>", "<|im_end|>"),
    ("tiny.gguf", "<|im_start|>", "<|im_end|>"),
    ("qwen3", "<|im_start|>", "<|im_end|>"),
    ("gptoss", "<|start|>", "<|end|>"),
    ("qwen35.gguf", "<|im_start|>", "<|im_end|>"),
    ("deepseek-llm.gguf", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    ("phi-3.gguf", "<|user|>", "<|end|>"),
    ("gpt-2.gguf", "<|endoftext|>", "<|endoftext|>"),
]


@pytest.mark.parametrize(("vocabulary", "opening", "closing"), REAL)
@given(chats=two_conversations(), separator=st.sampled_from(["", "\n", " "]), options=OPTIONS)
def test_a_map_on_a_real_vocabulary_made_from_an_earlier_one_is_the_same(
    load: Callable[[str], Backend],
    chat: Chat,
    vocabulary: str,
    opening: str,
    closing: str,
    chats: tuple[list[str], list[str]],
    separator: str,
    options: dict[str, Any],
) -> None:
    def render(contents: list[str]) -> Rendering:
        contents = [text.replace("<|user|>", opening).replace("<|end|>", closing) for text in contents]
        return chat(contents, separator=separator, opening=opening, closing=closing)

    before, after = map(render, chats)
    check(load(vocabulary), before, after, options, options)


class Counted(HuggingFaceTokenizer):
    """Counts the characters that it encodes."""

    characters = 0

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        self.characters += len(text)
        return super().encode(text, special=special, prefix=prefix)


def test_only_what_follows_the_last_shared_control_token_is_tokenised_again(chat: Chat) -> None:
    backend = Counted(hf_tokenizer())
    before = token_map(chat(["hello"] * 9, **CHATML), backend)
    backend.characters = 0
    token_map(chat([*["hello"] * 9, "world"], **CHATML), backend, previous=before)
    assert 0 < backend.characters <= len("\nhello\n\nworld\n\n")


def test_a_map_by_another_tokeniser_is_not_begun_with(small: Small, chat: Chat) -> None:
    before = token_map(chat(["hello", "world"]), small["byte-level"])
    after = token_map(chat(["hello", "world"]), small["metaspace, first"], previous=before)
    assert after.ids != before.ids
    assert_alike(after, token_map(chat(["hello", "world"]), small["metaspace, first"]))
