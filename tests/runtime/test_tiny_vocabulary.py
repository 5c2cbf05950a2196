"""The tiny vocabulary, read by Hugging Face tokenizers and by llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from runtime.tiny import vocabulary, write_model
from runtime.tiny.vocabulary import CONTROL_TOKENS, USER_DEFINED_TOKENS, hf_tokenizer

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus.txt"

Tokenize = Callable[[str, bool], list[int]]

SNIPPETS = (
    *CONTROL_TOKENS,
    *USER_DEFINED_TOKENS,
    *("<|", "|>", "<", ">", "[", "]", "</", "/INST]", "<|im_start", "im_end|>", "<|tool_response>"),
    *("'s", "'S", "'Re", "'ll", "'ſ", "n't", " ", "  ", "\n", "\r\n", "\n\n ", "\t", "\u00a0", "\u3000", "\0"),
    *("def f(x):\n    return", "12345", "3.14", "été", "订单", "🎉", "👩‍💻", "\u0301", "_id", '{"a": 1}'),
)
texts = st.lists(st.one_of(st.text(), st.sampled_from(SNIPPETS))).map("".join)


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """llama.cpp's view of the vocabulary of a written model."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    path = tmp_path_factory.mktemp("tiny") / "dense.gguf"
    write_model("dense", path)
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model
    yield llama_cpp.llama_model_get_vocab(model)
    llama_cpp.llama_model_free(model)


@pytest.fixture(scope="module")
def llama(vocab: Any) -> Tokenize:
    """llama.cpp's ids of a text, with special tokens parsed or not."""
    import llama_cpp

    def tokenize(text: str, parse_special: bool) -> list[int]:
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 1))()
        n_tokens = llama_cpp.llama_tokenize(vocab, data, len(data), ids, len(ids), False, parse_special)
        assert n_tokens >= 0
        return ids[:n_tokens]

    return tokenize


@cache
def tokenizer() -> Tokenizer:
    return hf_tokenizer()


def hf(text: str, parse_special: bool) -> list[int]:
    tokenizer().encode_special_tokens = not parse_special
    return tokenizer().encode(text).ids


def test_there_are_about_four_thousand_entries_and_no_text_twice() -> None:
    texts = [entry.text for entry in vocabulary.entries()]
    assert 3900 <= len(texts) <= 4100
    assert len(set(texts)) == len(texts)


def test_every_merge_joins_earlier_entries() -> None:
    known = set(vocabulary.byte_alphabet())
    for left, right in vocabulary.merges():
        assert {left, right} <= known
        known.add(left + right)


def test_committed_merges_are_as_many_as_the_vocabulary_says() -> None:
    assert len(vocabulary.merges()) == vocabulary.N_MERGES


def test_bytes_keep_their_values_as_ids() -> None:
    assert hf("\0\x07Az~", True) == [0, 7, *b"Az~"]
    assert hf("\U000e0041", True) == list("\U000e0041".encode())


@pytest.mark.parametrize("text", [*CONTROL_TOKENS, *USER_DEFINED_TOKENS])
def test_every_special_token_is_one_token(text: str) -> None:
    assert hf(f"a{text}b", True) == [ord("a"), vocabulary.token_id(text), ord("b")]


def test_control_tokens_in_plain_text_are_plain_tokens() -> None:
    control = {vocabulary.token_id(text) for text in CONTROL_TOKENS}
    assert not control & set(hf("".join(CONTROL_TOKENS), False))


def test_tokens_of_the_corpus_are_about_as_long_as_real_ones() -> None:
    text = CORPUS.read_text(encoding="utf-8")
    assert len(text) / len(hf(text, True)) > 3.2


@given(texts)
def test_decoding_gives_the_text_back(text: str) -> None:
    assert tokenizer().decode(hf(text, True), skip_special_tokens=False) == text


def test_unspoken_entries_are_specials_and_fragments() -> None:
    unspoken = set(vocabulary.unspoken())
    assert {vocabulary.token_id(text) for text in (*CONTROL_TOKENS, *USER_DEFINED_TOKENS)} <= unspoken
    assert {0x00, 0x1B, 0x80, 0xFF} <= unspoken
    assert not {ord("a"), ord("\n"), vocabulary.token_id("Ġthe")} & unspoken


@pytest.mark.parametrize("parse_special", [True, False])
def test_llama_cpp_agrees_on_the_corpus(llama: Tokenize, parse_special: bool) -> None:
    text = CORPUS.read_text(encoding="utf-8")
    assert llama(text, parse_special) == hf(text, parse_special)


@pytest.mark.parametrize("parse_special", [True, False])
def test_llama_cpp_agrees_on_special_tokens(llama: Tokenize, parse_special: bool) -> None:
    for text in (*CONTROL_TOKENS, *USER_DEFINED_TOKENS):
        for written in (text, f" {text} ", f"x{text}\n\n{text}", text + text):
            assert llama(written, parse_special) == hf(written, parse_special), written


@pytest.mark.parametrize("parse_special", [True, False])
@given(text=texts)
def test_llama_cpp_agrees_on_any_text(llama: Tokenize, parse_special: bool, text: str) -> None:
    assert llama(text, parse_special) == hf(text, parse_special)


def test_llama_cpp_agrees_on_every_code_point_in_use(llama: Tokenize) -> None:
    # Scripts end below U+32000 but for tags and variation selectors; private and unassigned planes are all alike.
    used = [*range(0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE0200)]
    for start in range(0, len(used), 256):
        text = "".join(
            f" {chr(code)}'s{chr(code)}.b\n{chr(code)}\n \n{chr(code)}1" for code in used[start : start + 256]
        )
        assert llama(text, False) == hf(text, False), f"from U+{used[start]:04X}"


def test_llama_cpp_keeps_the_token_types_of_the_file(vocab: Any) -> None:
    import llama_cpp

    for index, entry in enumerate(vocabulary.entries()):
        attributes = llama_cpp.llama_vocab_get_attr(vocab, index)
        assert bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_CONTROL) == (entry.type == vocabulary.CONTROL), entry
        assert bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED) == (entry.type == vocabulary.USER_DEFINED), (
            entry
        )


def test_llama_cpp_ends_turns_with_chatml_and_adds_no_beginning(vocab: Any) -> None:
    import llama_cpp

    assert llama_cpp.llama_vocab_eos(vocab) == vocabulary.token_id("<|im_end|>")
    assert llama_cpp.llama_vocab_eot(vocab) == vocabulary.token_id("<|im_end|>")
    assert not llama_cpp.llama_vocab_get_add_bos(vocab)
    assert not llama_cpp.llama_vocab_get_add_eos(vocab)
