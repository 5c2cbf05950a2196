from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spanparse.errors import MissingExtra, SourceError
from spanparse.tokens import LlamaVocabulary

RealGguf = Callable[[str], LlamaVocabulary]


def test_a_vocabulary_says_what_its_tokens_are(llama_spm: LlamaVocabulary) -> None:
    assert (llama_spm.bos, llama_spm.eos, llama_spm.add_bos) == (1, 2, True)
    assert llama_spm.added["</s>"].special
    assert not llama_spm.added["<tool>"].special
    assert "\n" in llama_spm.added["<|user|>"].rstrip
    assert llama_spm.added["<s>"].rstrip == ""


def test_pieces_are_the_bytes_of_the_tokens(llama_spm: LlamaVocabulary) -> None:
    ids = llama_spm.encode("hello é<|user|>", special=True)
    assert [llama_spm.pieces[id] for id in ids] == [b" hello", b" ", b"\xc3", b"\xa9", b"<|user|>"]


def test_the_dummy_space_can_be_left_out(llama_spm: LlamaVocabulary) -> None:
    for text in ("hello", " hello", "é", "<|user|>hello", ""):
        ids = llama_spm.encode(text, special=False, prefix=False)
        assert llama_spm.pieces.spell(ids) == text.encode()
    assert llama_spm.pieces.spell(llama_spm.encode("hello", special=False)) == b" hello"


def test_an_id_outside_the_vocabulary_has_no_piece(llama_spm: LlamaVocabulary) -> None:
    for id in (-1, 10**6):
        with pytest.raises(KeyError):
            llama_spm.pieces[id]


def test_a_token_longer_than_the_first_buffer_is_read_whole(real_gguf: RealGguf) -> None:
    vocabulary = real_gguf("qwen35")
    ids = vocabulary.encode(" " * 400, special=False)
    assert vocabulary.pieces.spell(ids) == b" " * 400
    assert max(len(vocabulary.pieces[id]) for id in ids) > 64


def test_bos_that_is_not_to_be_added_is_known_all_the_same(real_gguf: RealGguf) -> None:
    vocabulary = real_gguf("qwen35")
    assert vocabulary.bos is not None
    assert not vocabulary.add_bos


def test_loading_writes_nothing(real_gguf: RealGguf, capfd: pytest.CaptureFixture[str]) -> None:
    LlamaVocabulary(real_gguf("gpt-2").name)
    assert capfd.readouterr() == ("", "")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
    with pytest.raises(SourceError, match=r"none\.gguf: no such file$"):
        LlamaVocabulary(tmp_path / "none.gguf")


def test_a_file_that_is_no_gguf_is_refused_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llama_cpp", reason="reading a GGUF vocabulary needs the [runtime] extra")
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(SourceError, match=r"bad\.gguf: llama\.cpp cannot read a vocabulary from it: \S[^\n]*$"):
        LlamaVocabulary(path)
    assert capfd.readouterr() == ("", "")


def test_without_llama_cpp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingExtra) as missing:
        LlamaVocabulary(tmp_path / "model.gguf")
    assert missing.value.extra == "runtime"
