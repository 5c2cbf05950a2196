"""Vocabularies of llama.cpp, through llama-cpp-python's low-level bindings."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import local
from typing import Any, NamedTuple

from spanparse.errors import MissingExtra, SourceError
from spanparse.tokens.added import AddedToken, AddedTokens
from spanparse.tokens.pieces import Pieces
from spanparse.tokens.words import WordEnds

# What C's isspace() takes for white space, which is what llama.cpp strips beside its tokens.
_WHITE_SPACE = " \t\n\v\f\r"

# `tokenizer.ggml.pre` of the BPE vocabularies whose split is made of the rules in `words`, as `llm_tokenizer_bpe` has
# them; `gemma4` splits at line breaks only, and `gpt2` is the model of a file that names no split.
_LOCAL_PRE_TOKENIZERS = frozenset(
    {
        *("gpt-2", "phi-2", "gigachat", "mpt", "olmo", "jais", "exaone4", "starcoder", "refact", "command-r", "smollm"),
        *("codeshell", "exaone", "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2", "dbrx"),
        *("smaug-bpe", "chatglm-bpe", "glm4", "glm5", "qwen2", "deepseek-r1-qwen", "megrez", "qwen35", "stablelm2"),
        *("hunyuan", "solar-open", "grok-2", "deepseek-llm", "deepseek-coder", "deepseek-v3", "hunyuan-dense"),
        *("tekken", "gpt-4o", "llama4", "minimax-m2", "falcon", "gemma4", "default", "gpt2"),
    }
)


class _Spacer(NamedTuple):
    """Text to put before another, so that the dummy space comes before this one, always of `n_tokens` tokens."""

    text: str
    n_tokens: int


class LlamaVocabulary:
    """A backend over the vocabulary of a GGUF file or of a model that is loaded already.

    `source` is a path, of which only the vocabulary is loaded, or a `llama_model` pointer; then the vocabulary is valid
    while that model is, and never frees it. Raises `SourceError` if the file cannot be read, `MissingExtra` without
    llama-cpp-python.
    """

    def __init__(self, source: str | os.PathLike[str] | int, *, name: str | None = None) -> None:
        self.name = name or ("model" if isinstance(source, int) else os.fspath(source))
        self._llama = _bindings(self.name)
        self._threads = local()
        if isinstance(source, int):
            model = source
        else:
            model = self._load(os.fspath(source))
            weakref.finalize(self, self._llama.llama_model_free, model)
        self._vocab = self._llama.llama_model_get_vocab(model)
        self._pre_tokenizer = self._metadata(model, "tokenizer.ggml.pre") or self._metadata(
            model, "tokenizer.ggml.model"
        )
        self.added = AddedTokens(self._added_tokens())
        self.pieces = Pieces(self._piece)
        # numpy comes with llama-cpp-python, and not without the extra.
        from spanparse.tokens.table import PieceTable

        self._table = PieceTable(self._piece, self._llama.llama_vocab_n_tokens(self._vocab))
        self.bos = self._id(self._llama.llama_vocab_bos(self._vocab))
        self.eos = self._id(self._llama.llama_vocab_eos(self._vocab))
        self.add_bos = self.bos is not None and bool(self._llama.llama_vocab_get_add_bos(self._vocab))

    @cached_property
    def word_ends(self) -> WordEnds | None:
        llama = self._llama
        kind = llama.llama_vocab_type(self._vocab)
        if kind == llama.LLAMA_VOCAB_TYPE_BPE:
            local = self._pre_tokenizer in _LOCAL_PRE_TOKENIZERS
        else:
            # What follows such a place must be tokenised without a dummy space.
            local = kind == llama.LLAMA_VOCAB_TYPE_SPM and not (self._has_dummy and self._spacer is None)
        return WordEnds(self._spellings()) if local else None

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        if not prefix and self._spacer:
            return self._encode(self._spacer.text + text, special)[self._spacer.n_tokens :]
        return self._encode(text, special)

    def _encode(self, text: str, special: bool) -> list[int]:
        data = text.encode()
        # A token takes at least a byte, except dummy spaces, of which there is one before the text and one after each
        # token that is found by its text.
        buffer = self._buffer(2 * len(data) + 1)
        count = self._llama.llama_tokenize(self._vocab, data, len(data), buffer, len(buffer), False, special)
        return buffer[:count]

    def encode_all(
        self, texts: Sequence[str], starts: Sequence[int], control: frozenset[int]
    ) -> list[tuple[list[int], list[int] | None]]:
        encoded = [text.encode() for text in texts]
        buffer = self._buffer(2 * max(map(len, encoded)) + 1)
        filled = memoryview(buffer)
        counts, ids = [], bytearray()
        for data in encoded:
            count = self._llama.llama_tokenize(self._vocab, data, len(data), buffer, len(buffer), False, False)
            counts.append(count)
            ids += filled[:count]
        return self._table.align(ids, counts, encoded, starts, control)

    def align(self, text: str, *, prefix: bool = True) -> None:
        """None: llama.cpp gives no offsets, and of the vocabularies of chat models it normalises none."""

    def _load(self, path: str) -> int:
        if not os.path.isfile(path):
            raise SourceError(path, "no such file")
        llama = self._llama
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.vocab_only = True
        with _overheard(llama) as log:
            model: int | None = llama.llama_model_load_from_file(os.fsencode(path), params)
        if not model:
            _, _, why = "".join(log).partition("error loading model: ")
            reason = why.partition("\n")[0] or "no reason given"
            raise SourceError(path, f"llama.cpp cannot read a vocabulary from it: {reason}")
        return model

    def _metadata(self, model: int, key: str) -> str:
        """A text in the file's metadata, "" if it is not there."""
        buffer = ctypes.create_string_buffer(128)
        length = self._llama.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if length > 0 else ""

    def _added_tokens(self) -> Iterator[AddedToken]:
        llama = self._llama
        special = llama.LLAMA_TOKEN_ATTR_CONTROL | llama.LLAMA_TOKEN_ATTR_UNKNOWN
        for id in range(llama.llama_vocab_n_tokens(self._vocab)):
            attributes = llama.llama_vocab_get_attr(self._vocab, id)
            if attributes & (special | llama.LLAMA_TOKEN_ATTR_USER_DEFINED):
                yield AddedToken(
                    llama.llama_vocab_get_text(self._vocab, id).decode("utf-8", "replace"),
                    id,
                    special=bool(attributes & special),
                    lstrip=_WHITE_SPACE if attributes & llama.LLAMA_TOKEN_ATTR_LSTRIP else "",
                    rstrip=_WHITE_SPACE if attributes & llama.LLAMA_TOKEN_ATTR_RSTRIP else "",
                )

    def _spellings(self) -> list[bytes]:
        return list(map(self._piece, range(self._llama.llama_vocab_n_tokens(self._vocab))))

    def _piece(self, id: int) -> bytes:
        if not 0 <= id < self._llama.llama_vocab_n_tokens(self._vocab):
            raise KeyError(id)  # llama.cpp would abort the process
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            length = self._llama.llama_token_to_piece(self._vocab, id, buffer, room, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            room = -length

    @cached_property
    def _has_dummy(self) -> bool:
        return self.pieces.spell(self._encode("a", False)) != b"a"

    @cached_property
    def _spacer(self) -> _Spacer | None:
        """None if the vocabulary has no dummy space or nothing that keeps it away."""
        if not self._has_dummy:
            return None
        spellings = self._spellings()
        for letter in map(chr, range(1, 9)):
            # No merge can reach from a letter into what follows it if one token alone has that letter.
            if sum(letter.encode() in spelling for spelling in spellings) == 1:
                return _Spacer(letter, len(self._encode(letter, False)))
        return None

    def _buffer(self, room: int) -> ctypes.Array[ctypes.c_int32]:
        """This thread's own, since making one takes as long as filling it. It holds at least `room` ids."""
        buffer: ctypes.Array[ctypes.c_int32] | None = getattr(self._threads, "buffer", None)
        if buffer is None or len(buffer) < room:
            # A power of two: ctypes makes and keeps a type for each length.
            self._threads.buffer = buffer = (ctypes.c_int32 * (1 << room.bit_length()))()
        return buffer

    def _id(self, id: int) -> int | None:
        return None if id < 0 else id


def _bindings(source: str) -> Any:
    try:
        import llama_cpp
    except ImportError:
        raise MissingExtra(source, "runtime", "reading a GGUF vocabulary") from None
    return llama_cpp


@contextmanager
def _overheard(llama: Any) -> Iterator[list[str]]:
    """Collect what llama.cpp would write to stderr meanwhile; its logger is the process's, so it is put back."""
    before, data = llama.llama_log_callback(), ctypes.c_void_p()
    llama.llama_log_get(ctypes.byref(before), ctypes.byref(data))
    log: list[str] = []
    listener = llama.llama_log_callback(lambda level, text, user_data: log.append(text.decode("utf-8", "replace")))
    llama.llama_log_set(listener, None)
    try:
        yield log
    finally:
        llama.llama_log_set(before, data)
