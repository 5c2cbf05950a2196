"""A token map that begins with an earlier one is the map that would be made without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.tiny.vocabulary import hf_tokenizer
from spanparse.spans import Rendering
from spanparse.tokens import Backend, HuggingFaceTokenizer, LlamaVocabulary, TokenMap, encoding, token_map

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


PLAIN = [
    "hello",
    "ab",
    ".",
    ".\n",
    "\n \n",
    " ",
    "  ",
    "\n",
    "é",
    "日",
    "▁",
    "12",
    "'s",
    " x",
    "<tool>",
    "<b>",
    "<b> ",
    "</s>",
]


@st.composite
def two_plain_conversations(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    text = st.lists(st.sampled_from(PLAIN), max_size=6).map("".join)
    before = draw(st.lists(text, min_size=1, max_size=3))
    kept = draw(st.integers(0, len(before)))
    return before, [*before[:kept], *draw(st.lists(text, max_size=2))]


def check_plain(
    backend: Backend, chat: Chat, chats: tuple[list[str], list[str]], closing: str, options: dict[str, Any]
) -> None:
    before, after = (chat(contents, opening="User: ", closing=closing, separator="") for contents in chats)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_FAR", 0)
        check(backend, before, after, options, options)


@pytest.mark.parametrize("vocabulary", [vocabulary for vocabulary, _, _ in REAL])
@given(chats=two_plain_conversations(), closing=st.sampled_from(["\n", "\n\n", " ", ""]), options=OPTIONS)
def test_a_map_of_plain_text_made_from_an_earlier_one_is_the_same(
    load: Callable[[str], Backend],
    chat: Chat,
    vocabulary: str,
    chats: tuple[list[str], list[str]],
    closing: str,
    options: dict[str, Any],
) -> None:
    check_plain(load(vocabulary), chat, chats, closing, options)


@example(
    chats=(["<b> hello", "", "<tool>"], ["<b> hello", ""]),
    closing="\n",
    options={"template": None, "trust_content": False, "any_text": False},
)
@given(chats=two_plain_conversations(), closing=st.sampled_from(["\n", "\n\n", " ", "<|end|>"]), options=OPTIONS)
def test_a_map_of_plain_text_by_small_tokenisers_made_from_an_earlier_one_is_the_same(
    small: Small,
    llama_spm: LlamaVocabulary,
    composing: HuggingFaceTokenizer,
    chat: Chat,
    chats: tuple[list[str], list[str]],
    closing: str,
    options: dict[str, Any],
) -> None:
    for backend in (*small.values(), llama_spm, composing):
        check_plain(backend, chat, chats, closing, options)


def test_plain_text_is_tokenised_again_from_the_end_of_a_word(chat: Chat) -> None:
    backend = Counted(hf_tokenizer())
    words = [" ".join(["hello world"] * 50)] * 99
    before = token_map(chat(words, opening="User: ", closing="\n"), backend)
    backend.characters = 0
    after = chat([*words, "more"], opening="User: ", closing="\n")
    token_map(after, backend, previous=before)
    assert 0 < backend.characters < 200


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
