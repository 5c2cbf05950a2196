"""The few calls of llama.cpp that the engine needs, with types, ownership and errors.

A context holds several sequences, numbered from 0; where none is named it is sequence 0. They share one pool of cells.
Objects free what they own in `close()`; a context must be closed before its model.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import local
from typing import Any, final

import numpy as np
import numpy.typing as npt

from runtime.closing import Closing
from runtime.compiler import amx_is_miscompiled
from runtime.errors import DecodeError, ModelError
from runtime.prefix import Tokens
from spanparse.errors import MissingExtra

try:
    # Untyped on purpose: the bindings' own annotations contradict what ctypes accepts.
    lib: Any = import_module("llama_cpp.llama_cpp")
except ImportError as error:
    raise MissingExtra("llama.cpp", "runtime", "running a model") from error

State = npt.NDArray[np.uint8]
"""The bytes of a memory state."""

_MOST_CELLS = 1 << 24  # more than any model was trained for; llama.cpp takes minutes to refuse what no machine holds
_MOST_THREADS = 512  # GGML_MAX_N_THREADS
_MOST_SEQUENCES = 256  # LLAMA_MAX_SEQ
_PARTIAL = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: only what cannot be cut, the SWA or recurrent part
_LOG_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_int_pointer = ctypes.POINTER(ctypes.c_int32)
_byte_pointer = ctypes.POINTER(ctypes.c_uint8)


_heard = local()


@lib.llama_log_callback  # type: ignore[untyped-decorator]
def log_callback(level: int, text: bytes, user_data: object) -> None:
    """Keeps llama.cpp's error lines for a thread that is `listening`, and discards all else that it logs."""
    errors = getattr(_heard, "errors", None)
    if errors is not None and level == _LOG_ERROR:
        errors.append(text.decode("utf-8", "replace").strip())


# One for the process and for good: several threads may load models. llama.cpp logs on the thread that called it.
lib.llama_log_set(log_callback, ctypes.c_void_p(0))


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect the error lines of llama.cpp on this thread instead of discarding them."""
    errors: list[str] = []
    _heard.errors = errors
    try:
        yield errors
    finally:
        _heard.errors = None


@cache
def _amx_is_miscompiled() -> bool:
    folder = os.environ.get("LLAMA_CPP_LIB_PATH") or os.path.join(os.path.dirname(lib.__file__), "lib")
    return amx_is_miscompiled(Path(folder), lib.llama_print_system_info())


@final
class Model(Closing):
    """A GGUF model in memory. Raises `ModelError` if llama.cpp cannot load `path`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            raise ModelError(self.path, "no such file")
        lib.llama_backend_init()
        parameters = lib.llama_model_default_params()
        # Without these buffers weights are not rearranged for AMX, nor for anything else.
        parameters.use_extra_bufts = not _amx_is_miscompiled()
        with listening() as errors:
            pointer = lib.llama_model_load_from_file(os.fsencode(self.path), parameters)
        if not pointer:
            raise ModelError(self.path, f"llama.cpp cannot load it: {errors[0] if errors else 'no reason given'}")
        self._pointer: Any = pointer
        self.n_vocab: int = lib.llama_vocab_n_tokens(self._vocab)
        self.n_swa: int = lib.llama_model_n_swa(pointer)
        self.is_recurrent: bool = lib.llama_model_is_recurrent(pointer)
        self.is_hybrid: bool = lib.llama_model_is_hybrid(pointer)

    @property
    def pointer(self) -> Any:
        """The `llama_model *`. Raises `ModelError` after `close()`."""
        if self._pointer is None:
            raise ModelError(self.path, "the model is closed")
        return self._pointer

    @property
    def _vocab(self) -> Any:
        return lib.llama_model_get_vocab(self.pointer)

    def ends_generation(self, token: int) -> bool:
        """Whether `token` ends an answer (end of turn, end of text)."""
        return bool(lib.llama_vocab_is_eog(self._vocab, token))

    def piece(self, token: int) -> bytes:
        """The bytes of one token, control tokens spelled out."""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = lib.llama_token_to_piece(self._vocab, token, buffer, size, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            size = -length

    def text(self, tokens: Iterable[int]) -> str:
        """What `tokens` spell, control tokens included; bytes that are no UTF-8 become replacement characters."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    def close(self) -> None:
        """Free the model. Closing twice is fine."""
        if self._pointer is not None:
            lib.llama_model_free(self._pointer)
            self._pointer = None


@dataclass(frozen=True)
class ContextOptions:
    """How a context evaluates.

    `n_ctx`: tokens the memory holds, those that sequences share counted once. `n_batch`: most tokens handed over in one
    call. `n_ubatch`: most tokens computed at once. `n_threads`: None for one on each available core. `exact`: keys and
    values as 32-bit floats and no flash attention, so that results of different batch splits differ by rounding alone
    and can be compared. `n_seq_max`: sequences; llama.cpp sets room aside for the recurrent state and window of each.

    Raises ValueError for a value out of its range: a context of fewer than 256 tokens would be made larger, the memory
    is probed with batches of 4, and llama.cpp ends the process for more than 512 threads.
    """

    n_ctx: int = 16384
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int | None = None
    exact: bool = False
    n_seq_max: int = 1

    def __post_init__(self) -> None:
        for name, least in (("n_ctx", 256), ("n_batch", 4), ("n_ubatch", 1), ("n_threads", 1), ("n_seq_max", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        for name, most in (("n_ctx", _MOST_CELLS), ("n_threads", _MOST_THREADS), ("n_seq_max", _MOST_SEQUENCES)):
            value = getattr(self, name)
            if value is not None and value > most:
                raise ValueError(f"{name} must be at most {most}, not {value}")


@final
@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tokens of one sequence in a batch, the first of which stands at `position`.

    With `logits`, those after the last token are computed.
    """

    tokens: Tokens
    position: int
    sequence: int = 0
    logits: bool = False


@final
class Context(Closing):
    """A memory and the means to evaluate tokens into it. Raises `ModelError` if llama.cpp cannot make one."""

    def __init__(self, model: Model, options: ContextOptions) -> None:
        self.model = model
        self.options = options
        with listening() as errors:
            pointer = lib.llama_init_from_model(model.pointer, _parameters(options))
        if not pointer:
            raise ModelError(
                model.path, f"llama.cpp cannot make a context: {errors[0] if errors else 'no reason given'}"
            )
        self._pointer: Any = pointer
        if not self._memory:
            self.close()
            raise ModelError(model.path, "the model keeps no memory of a sequence, it cannot generate")
        self.n_ctx: int = lib.llama_n_ctx(pointer)
        self.n_batch: int = lib.llama_n_batch(pointer)
        self.n_ubatch: int = lib.llama_n_ubatch(pointer)
        self.n_seq_max: int = lib.llama_n_seq_max(pointer)
        self._tokens = np.zeros(self.n_batch, dtype=np.int32)
        self._positions = np.zeros(self.n_batch, dtype=np.int32)
        self._sequences = np.zeros(self.n_batch, dtype=np.int32)
        self._sequence_counts = np.ones(self.n_batch, dtype=np.int32)
        self._wanted = np.zeros(self.n_batch, dtype=np.int8)
        step = self._sequences.itemsize
        self._sequence_lists = self._sequences.ctypes.data + step * np.arange(self.n_batch, dtype=np.uintp)
        self._batch: Any = lib.llama_batch()
        self._batch.token = self._tokens.ctypes.data_as(_int_pointer)
        self._batch.pos = self._positions.ctypes.data_as(_int_pointer)
        self._batch.n_seq_id = self._sequence_counts.ctypes.data_as(_int_pointer)
        self._batch.seq_id = self._sequence_lists.ctypes.data_as(ctypes.POINTER(_int_pointer))
        self._batch.logits = self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))

    @property
    def pointer(self) -> Any:
        """The `llama_context *`. Raises `ModelError` after `close()`."""
        if self._pointer is None:
            raise ModelError(self.model.path, "the context is closed")
        return self._pointer

    @property
    def _memory(self) -> Any:
        return lib.llama_get_memory(self.pointer)

    def decode(self, *stretches: Stretch) -> tuple[int, ...]:
        """Evaluate at most `n_batch` tokens in all; the rows of the logits asked for, in the order of the stretches.

        The rows can be read until the next call. Raises ValueError for no tokens, too many and places that do not
        exist, and `DecodeError`: the memory may then hold any number of these tokens, or be ahead of its positions.
        """
        size = sum(stretch.tokens.size for stretch in stretches)
        # llama.cpp ends the process for more than n_batch tokens and writes past its arrays for other sequences.
        if not all(map(self._has_room, stretches)) or not 0 < size <= self.n_batch:
            raise ValueError(
                f"{_places(stretches)} do not fit: "
                f"n_batch {self.n_batch}, n_ctx {self.n_ctx}, n_seq_max {self.n_seq_max}"
            )
        rows, begin = [], 0
        self._wanted[:size] = 0
        for stretch in stretches:
            end = begin + stretch.tokens.size
            self._tokens[begin:end] = stretch.tokens
            self._positions[begin:end] = np.arange(stretch.position, stretch.position + stretch.tokens.size)
            self._sequences[begin:end] = stretch.sequence
            if stretch.logits:
                self._wanted[end - 1] = 1
                rows.append(end - 1)
            begin = end
        self._batch.n_tokens = size
        code = lib.llama_decode(self.pointer, self._batch)
        if code != 0:
            raise DecodeError(code, _places(stretches))
        return tuple(rows)

    def _has_room(self, stretch: Stretch) -> bool:
        last = stretch.position + stretch.tokens.size
        return stretch.tokens.size > 0 and last <= self.n_ctx and 0 <= stretch.sequence < self.n_seq_max

    def synchronize(self) -> None:
        """Wait until everything handed over has been computed, so that a clock tells the truth."""
        lib.llama_synchronize(self.pointer)

    def logits(self, row: int = -1) -> npt.NDArray[np.float32]:
        """A copy of a row of logits that the last `decode` gave, of shape (n_vocab,); by default the last one."""
        pointer = lib.llama_get_logits_ith(self.pointer, row)
        if not pointer:
            raise ValueError(f"the last batch has no logits in row {row}")
        return np.array(np.ctypeslib.as_array(pointer, shape=(self.model.n_vocab,)))

    def state_size(self, sequence: int = 0, *, partial: bool = True) -> int:
        """Bytes that `save_state` would return."""
        return int(lib.llama_state_seq_get_size_ext(self.pointer, sequence, _PARTIAL if partial else 0))

    def save_state(self, sequence: int = 0, *, partial: bool = True, into: State | None = None) -> State:
        """A copy of a sequence's memory, or with `partial` of the part that cannot be cut.

        With `into` it is a view of that buffer of at least `state_size` bytes: memory that was used before is faster.
        """
        data = np.empty(self.state_size(sequence, partial=partial), dtype=np.uint8) if into is None else into
        written = lib.llama_state_seq_get_data_ext(
            self.pointer, data.ctypes.data_as(_byte_pointer), data.size, sequence, _PARTIAL if partial else 0
        )
        return data[:written]

    def load_state(self, data: State, sequence: int = 0, *, partial: bool = True) -> bool:
        """Put a saved copy back. A partial one leaves the other part as it is: `cut` it to the same length.

        False if llama.cpp refuses the bytes; what the sequence then holds is unknown.
        """
        flags = _PARTIAL if partial else 0
        read = lib.llama_state_seq_set_data_ext(
            self.pointer, data.ctypes.data_as(_byte_pointer), data.size, sequence, flags
        )
        return bool(read == data.size)

    def copy(self, source: int, target: int) -> None:
        """Make the sequence `target`, whatever it held, share all that `source` holds; no cell is taken for it."""
        self.cut(0, target)
        lib.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def cut(self, position: int, sequence: int = 0) -> bool:
        """Forget a sequence from `position` on; False if this memory cannot, and then nothing changed.

        Everything (`position` 0) can always be forgotten.
        """
        return bool(lib.llama_memory_seq_rm(self._memory, sequence, position, -1))

    def clear(self) -> None:
        """Forget all sequences, buffers included, as in a new context."""
        lib.llama_memory_clear(self._memory, True)

    def position_range(self, sequence: int = 0) -> tuple[int, int]:
        """The first and the last position that every layer still holds of a sequence; (-1, -1) when empty."""
        return (
            int(lib.llama_memory_seq_pos_min(self._memory, sequence)),
            int(lib.llama_memory_seq_pos_max(self._memory, sequence)),
        )

    def close(self) -> None:
        """Free the context. Closing twice is fine."""
        if self._pointer is not None:
            lib.llama_free(self._pointer)
            self._pointer = None


def _places(stretches: Sequence[Stretch]) -> str:
    """Which tokens were to be evaluated, in words."""
    words = []
    for stretch in stretches:
        begin, end = stretch.position, stretch.position + stretch.tokens.size
        words.append(f"tokens {begin} to {end}" + (f" of sequence {stretch.sequence}" if stretch.sequence else ""))
    return ", ".join(words) or "no tokens"


def _parameters(options: ContextOptions) -> Any:
    parameters = lib.llama_context_default_params()
    threads = options.n_threads or len(os.sched_getaffinity(0))
    parameters.n_ctx = options.n_ctx
    parameters.n_batch = min(options.n_batch, options.n_ctx)
    parameters.n_ubatch = min(options.n_ubatch, parameters.n_batch)
    parameters.n_threads = parameters.n_threads_batch = threads
    # The bindings' default keeps every key of a sliding-window layer, which is not the memory the model was built for.
    parameters.swa_full = False
    parameters.no_perf = True
    parameters.n_seq_max = options.n_seq_max
    # One row of logits for each sequence is all that a batch asks for; llama.cpp sets room aside for so many, and ends
    # the process where they are fewer than the sequences.
    parameters.n_outputs_max = options.n_seq_max
    parameters.kv_unified = True
    if options.exact:
        parameters.type_k = parameters.type_v = lib.GGML_TYPE_F32
        parameters.flash_attn_type = 0
    return parameters
