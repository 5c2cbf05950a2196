from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from spanparse.errors import SourceError
from spanparse.tokens import HuggingFaceTokenizer, LlamaVocabulary, load_backend


def test_a_folder_and_its_tokenizer_json_are_the_same_tokeniser(tmp_path: Path) -> None:
    Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(tmp_path / "tokenizer.json"))
    for spec in (tmp_path, tmp_path / "tokenizer.json"):
        backend = load_backend(str(spec))
        assert isinstance(backend, HuggingFaceTokenizer)
        assert backend.name == str(spec)
        assert backend.encode("a", special=False) == [0]


def test_a_gguf_file_is_a_llama_vocabulary(llama_spm: LlamaVocabulary) -> None:
    backend = load_backend(llama_spm.name)
    assert isinstance(backend, LlamaVocabulary)
    assert backend.encode("hello", special=False) == llama_spm.encode("hello", special=False)


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"/none: no such file or folder$"):
        load_backend(str(tmp_path / "none"))


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"the folder holds no tokenizer\.json$"):
        load_backend(str(tmp_path))
