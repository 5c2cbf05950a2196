from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

from spanparse.errors import SourceError
from spanparse.tokens import HuggingFaceTokenizer

Small = dict[str, HuggingFaceTokenizer]
KINDS = ["byte-level", "byte-level, prefix space", "metaspace, first", "metaspace, always", "prepending normaliser"]


def letters(*added: AddedToken) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "▁": 2, "<0x0A>": 3}, merges=[], byte_fallback=True))
    tokenizer.add_tokens(list(added))
    return tokenizer


def folder(path: Path, **config: Any) -> Path:
    letters(AddedToken("<s>", special=True), AddedToken("</s>", special=True)).save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_dummy_space_tokens_spell_the_text_itself(small: Small, kind: str) -> None:
    backend = small[kind]
    for text in ["hello world", " hello", "日本語 <|user|>", "\n\n"]:
        assert backend.pieces.spell(backend.encode(text, special=False, prefix=False)) == text.encode()


def test_pieces_are_bytes_not_letters_of_the_vocabulary() -> None:
    backend = HuggingFaceTokenizer(letters(AddedToken("▁é<", special=True)))
    assert [backend.pieces[id] for id in range(5)] == [b"a", b"b", b" ", b"\n", "▁é<".encode()]


def test_an_id_outside_the_vocabulary_has_no_piece(small: Small) -> None:
    with pytest.raises(KeyError):
        small["byte-level"].pieces[10**6]


def test_the_given_tokenizer_still_finds_special_tokens() -> None:
    tokenizer = letters(AddedToken("<s>", special=True))
    backend = HuggingFaceTokenizer(tokenizer)
    assert backend.encode("a<s>", special=False) == [0]
    assert tokenizer.encode("a<s>").ids == [0, 4]


def test_the_config_names_bos_and_eos_as_text_or_object(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "add_bos_token": True}
    backend = HuggingFaceTokenizer.from_file(folder(tmp_path, **config))
    assert (backend.bos, backend.eos, backend.add_bos) == (4, 5, True)
    assert HuggingFaceTokenizer.from_file(tmp_path / "tokenizer.json").bos == 4


def test_a_bos_that_the_vocabulary_does_not_have_is_none(tmp_path: Path) -> None:
    backend = HuggingFaceTokenizer.from_file(folder(tmp_path, bos_token="<no>", add_bos_token=True))
    assert (backend.bos, backend.add_bos) == (None, False)
    with pytest.raises(SourceError, match=r"^tokenizer: token '<no>' is not in the vocabulary$"):
        HuggingFaceTokenizer(letters(), bos="<no>")


def test_without_a_word_in_the_config_the_post_processor_says_whether_bos_is_added(tmp_path: Path) -> None:
    assert not HuggingFaceTokenizer.from_file(folder(tmp_path, bos_token="<s>")).add_bos
    tokenizer = letters(AddedToken("<s>", special=True))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 4)])
    backend = HuggingFaceTokenizer(tokenizer)
    assert (backend.bos, backend.add_bos) == (4, True)
    assert not HuggingFaceTokenizer(tokenizer, add_bos=False).add_bos


def test_a_post_processor_that_adds_only_eos_adds_no_bos() -> None:
    tokenizer = letters(AddedToken("</s>", special=True))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 4)])
    backend = HuggingFaceTokenizer(tokenizer)
    assert (backend.bos, backend.add_bos) == (None, False)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "cannot read tokenizer.json: No such file"),
        (lambda path: (path / "tokenizer.json").write_text("{}"), "tokenizer.json is not a tokenizer: "),
        (lambda path: (path / "tokenizer.json").write_bytes(b"\xff"), "tokenizer.json is not a tokenizer: "),
        (lambda path: (folder(path) / "tokenizer_config.json").write_text("["), "cannot read tokenizer_config.json: "),
        (lambda path: (folder(path) / "tokenizer_config.json").write_text("[]"), "tokenizer_config.json is not a JSON"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, write: Callable[[Path], object], message: str
) -> None:
    write(tmp_path)
    with pytest.raises(SourceError) as refused:
        HuggingFaceTokenizer.from_file(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}: {message}")
    assert "\n" not in str(refused.value)


def test_added_tokens_that_depend_on_their_surroundings_are_left_to_the_tokeniser() -> None:
    tokenizer = letters(AddedToken("<w>", single_word=True), AddedToken("<n>", normalized=True), AddedToken("<k>"))
    tokenizer.normalizer = normalizers.Prepend("▁")
    assert [*HuggingFaceTokenizer(tokenizer).added] == []
    tokenizer.normalizer = normalizers.NFC()
    assert [*HuggingFaceTokenizer(tokenizer).added] == ["<n>", "<k>"]
