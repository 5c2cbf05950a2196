"""Find the backend that reads a tokenizer."""

from __future__ import annotations

from pathlib import Path

from spanparse.errors import SourceError
from spanparse.tokens.base import Backend


def load_backend(spec: str) -> Backend:
    """The tokeniser that `spec` names: a tokenizer.json, a folder that holds one, or a .gguf file.

    Raises `SourceError` if it cannot be read, `MissingExtra` for a GGUF without llama-cpp-python.
    """
    path = Path(spec)
    if not path.exists():
        raise SourceError(spec, "no such file or folder")
    # Either library takes as long to import as everything else together, and a process seldom needs both.
    if path.suffix == ".gguf":
        from spanparse.tokens.llama import LlamaVocabulary

        return LlamaVocabulary(path)
    if path.is_dir() and not (path / "tokenizer.json").exists():
        raise SourceError(spec, "the folder holds no tokenizer.json")
    from spanparse.tokens.hf import HuggingFaceTokenizer

    return HuggingFaceTokenizer.from_file(path)
