"""Images and recordings in llama.cpp: what they become in a prompt, and their evaluation, by libmtmd.

Its C interface is called experimental; what is used here holds for llama-cpp-python 0.3.36.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from typing import Any, final

from runtime.closing import Closing
from runtime.errors import DecodeError, ModelError, RequestError
from runtime.llama import Context, Model, listening, log_callback
from spanparse.errors import MissingExtra
from spanparse.media import Audio, Image, Media
from spanparse.tokens.media import Chunk, Expansion, media_chunk, text_chunk

try:
    # Untyped on purpose: the bindings' own annotations contradict what ctypes accepts.
    lib: Any = import_module("llama_cpp.mtmd_cpp")
except ImportError as error:
    raise MissingExtra("libmtmd", "runtime", "evaluating media") from error

MAX_RATIO = 200
"""How many times longer than wide an image may be: resized to whole squares, longer ones can outgrow any memory."""

MIN_SECONDS = 0.1
"""The shortest recording: libmtmd ends the process on some that have fewer than two windows."""

# libmtmd logs as llama.cpp does, on the thread that called it.
lib.mtmd_helper_log_set(log_callback, ctypes.c_void_p(0))


@final
class Projector(Closing):
    """A projector (mmproj) file in memory, for one text model.

    `n_threads`: None for one on each available core. `mrope`: images take as many positions as their longer side has
    tokens, because the text model's positions are two-dimensional. Close it before the model. Raises `ModelError` if
    libmtmd cannot load `path` or it is of another width than the model. A file that lacks a tensor of its kind can end
    the process: libmtmd looks for some of them only when it needs them. Several threads may use it, and encode in turn.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model, *, n_threads: int | None = None) -> None:
        self.path = os.fspath(path)
        self.model = model
        self._pointer: Any = None
        if not os.path.isfile(self.path):
            raise ModelError(self.path, "no such file")
        parameters = lib.mtmd_context_params_default()
        parameters.use_gpu = False
        parameters.print_timings = False
        parameters.n_threads = n_threads or len(os.sched_getaffinity(0))
        with listening() as errors:
            pointer = lib.mtmd_init_from_file(os.fsencode(self.path), model.pointer, parameters)
        if not pointer:
            # The first names the cause, those after it what failed in turn.
            reason = errors[0].splitlines()[0] if errors else "no reason given"
            raise ModelError(self.path, f"libmtmd cannot load it: {reason}")
        self._pointer = pointer
        self.mrope = bool(lib.mtmd_decode_use_mrope(pointer))
        self.takes_images = bool(lib.mtmd_support_vision(pointer))
        self.takes_audio = bool(lib.mtmd_support_audio(pointer))
        self._encoder = Lock()

    @property
    def pointer(self) -> Any:
        """The `mtmd_context *`. Raises `ModelError` after `close()`."""
        if self._pointer is None:
            raise ModelError(self.path, "the projector is closed")
        return self._pointer

    def expand(self, media: Media, where: str, *, n_ubatch: int | None = None) -> Expansion:
        """What `media` become in a prompt, the text that the runtime puts around them included.

        Raises as `prepare`, and `RequestError` if micro-batches of `n_ubatch` tokens cannot hold an image all of whose
        tokens see each other.
        """
        with self.prepare(media, where) as prepared:
            if n_ubatch is not None:
                prepared.check(n_ubatch)
            return Expansion(media.id, prepared.chunks, exact=True)

    def prepare(self, media: Media, where: str) -> PreparedMedia:
        """`media` cut into chunks that can be evaluated.

        Raises `RequestError` naming `where` for media that this projector does not take, and for shapes on which
        libmtmd would end the process.
        """
        bitmap = self._image(media, where) if isinstance(media, Image) else self._audio(media, where)
        part = lib.mtmd_input_part()
        part.bitmap = bitmap
        chunks = lib.mtmd_input_chunks_init()
        # From parts, because in a text a caller could quote the marker that stands for media.
        parts = (ctypes.POINTER(lib.mtmd_input_part) * 1)(ctypes.pointer(part))
        try:
            lib.mtmd_bitmap_set_id(bitmap, media.id.encode())
            with listening() as errors:
                code = lib.mtmd_tokenize_from_parts(self.pointer, chunks, parts, 1, False)
        finally:
            lib.mtmd_bitmap_free(bitmap)
        prepared = PreparedMedia(self, chunks, media.id, where)
        if code != 0 or not prepared.is_sound:
            prepared.close()
            reason = errors[0] if errors else "a chunk without tokens, or a marker that the model's vocabulary lacks"
            raise RequestError(where, f"{self.path} makes nothing of it: {reason}")
        return prepared

    def evaluate(self, chunk: Any, context: Context, position: int, sequence: int, n_batch: int) -> tuple[int, int]:
        """libmtmd's evaluation of a `mtmd_input_chunk *`: its code, and the position after it."""
        after = ctypes.c_int32(position)
        # What was encoded last is the projector's until it is in the memory.
        with self._encoder, listening():
            code = lib.mtmd_helper_eval_chunk_single(
                self.pointer, context.pointer, chunk, position, sequence, n_batch, False, ctypes.byref(after)
            )
        return code, after.value

    def _image(self, image: Image, where: str) -> Any:
        if not self.takes_images:
            raise RequestError(where, f"{self.path} takes no images")
        if max(image.width, image.height) > MAX_RATIO * min(image.width, image.height):
            raise RequestError(where, f"an image of {image.width} x {image.height} pixels is too long and thin")
        return lib.mtmd_bitmap_init(image.width, image.height, _bytes_at(image.pixels))

    def _audio(self, audio: Audio, where: str) -> Any:
        if not self.takes_audio:
            raise RequestError(where, f"{self.path} takes no audio")
        if audio.seconds < MIN_SECONDS:
            raise RequestError(where, f"a recording shorter than {MIN_SECONDS} seconds")
        samples = audio.mono(lib.mtmd_get_audio_sample_rate(self.pointer))
        buffer = (ctypes.c_float * len(samples)).from_buffer(samples)
        return lib.mtmd_bitmap_init_from_audio(len(samples), buffer)

    def close(self) -> None:
        """Free the projector. Closing twice is fine."""
        if self._pointer is not None:
            lib.mtmd_free(self._pointer)
            self._pointer = None


@final
class PreparedMedia(Closing):
    """One media part, which `where` names, as libmtmd's chunks, until `close()`."""

    def __init__(self, projector: Projector, pointer: Any, id: str, where: str) -> None:
        self.where = where
        self._projector = projector
        self._pointer = pointer
        self.chunks: tuple[Chunk, ...] = tuple(
            _chunk(lib.mtmd_input_chunks_get(pointer, number), id, number)
            for number in range(lib.mtmd_input_chunks_size(pointer))
        )

    @property
    def is_sound(self) -> bool:
        """Whether every chunk has tokens and every text only those of the vocabulary."""
        return all(chunk.ids and (chunk.is_media or min(chunk.ids) >= 0) for chunk in self.chunks)

    @property
    def n_together(self) -> int:
        """The most tokens that have to be computed at once, because they see each other; 0 if all see only back."""
        return max(map(self._together, range(len(self.chunks))), default=0)

    def _together(self, number: int) -> int:
        chunk = lib.mtmd_input_chunks_get(self._pointer, number)
        sees_all = self.chunks[number].is_media and lib.mtmd_decode_use_non_causal(self._projector.pointer, chunk)
        return len(self.chunks[number].ids) if sees_all else 0

    def check(self, n_ubatch: int) -> None:
        """Raises `RequestError` if micro-batches of `n_ubatch` tokens cannot hold what has to be computed at once."""
        if self.n_together > n_ubatch:
            # llama.cpp ends the process.
            raise RequestError(self.where, f"its {self.n_together} tokens must fit in n_ubatch, which is {n_ubatch}")

    def evaluate(
        self, context: Context, number: int, position: int, *, sequence: int = 0, n_batch: int | None = None
    ) -> int:
        """Encode media chunk `number` and append it to a sequence at `position`; gives the position after it.

        At most `n_batch` tokens are computed at once (the context's where None), but an image whose tokens see each
        other must fit in one micro-batch. The position after it is not that of the memory's last cell plus one.

        Raises `RequestError` for an image that does not fit, and `DecodeError`: the memory may then hold some of its
        tokens, which `Context.cut` at `position` or a saved state removes.
        """
        if not self.chunks[number].is_media:
            raise ValueError(f"chunk {number} is text")
        size = len(self.chunks[number].ids)
        if size > context.n_ctx:
            raise RequestError(self.where, f"takes {size} tokens, the context holds {context.n_ctx}")
        at_once = min(n_batch or context.n_batch, context.n_batch)
        # Beyond n_batch the logits are wrong.
        self.check(min(at_once, context.n_ubatch))
        chunk = lib.mtmd_input_chunks_get(self._pointer, number)
        code, after = self._projector.evaluate(chunk, context, position, sequence, at_once)
        if code != 0:
            raise DecodeError(code, f"{self.where}, at position {position} of sequence {sequence}")
        return after

    def close(self) -> None:
        """Free the chunks. Closing twice is fine."""
        if self._pointer is not None:
            lib.mtmd_input_chunks_free(self._pointer)
            self._pointer = None


def _chunk(pointer: Any, id: str, number: int) -> Chunk:
    if lib.mtmd_input_chunk_get_type(pointer) == lib.MTMD_INPUT_CHUNK_TYPE_TEXT:
        return text_chunk(_tokens(pointer))
    n_tokens, n_pos = lib.mtmd_input_chunk_get_n_tokens(pointer), lib.mtmd_input_chunk_get_n_pos(pointer)
    return media_chunk(id, number, n_tokens, n_pos)


def _tokens(pointer: Any) -> Sequence[int]:
    size = ctypes.c_size_t()
    tokens = lib.mtmd_input_chunk_get_tokens_text(pointer, ctypes.byref(size))
    return list(tokens[: size.value])


def _bytes_at(data: bytes) -> Any:
    """A pointer to bytes that C copies and does not change."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.POINTER(ctypes.c_uint8))
