"""libmtmd as llama.cpp's own programs use it, to compare with, and files of images and recordings."""

from __future__ import annotations

import ctypes
import io
import math
import struct
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import PIL.Image

from runtime.media import Projector, lib
from spanparse.tokens import TokenMap

MARKER = "<__media__>"

Pieces = list[tuple[int, ...] | tuple[str, int, int]]
"""The ids of each stretch of text, and `("media", n_tokens, n_pos)`."""


def picture(width: int, height: int, seed: int = 0, form: str = "PNG") -> bytes:
    """An image file of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def sound(seconds: float, rate: int = 16000) -> bytes:
    """A WAV file of a tone."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate, 0, "NONE", ""))
        writer.writeframes(
            b"".join(struct.pack("<h", int(9000 * math.sin(n / 9))) for n in range(round(seconds * rate)))
        )
    return file.getvalue()


def image_part(data: bytes) -> dict[str, Any]:
    return {"type": "image", "image": data}


def audio_part(data: bytes) -> dict[str, Any]:
    return {"type": "audio", "audio": data}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@contextmanager
def tokenized(projector: Projector, text: str, files: list[bytes]) -> Iterator[Any]:
    """The chunks that mtmd_tokenize makes of a text with a marker for each of `files`, which libmtmd decodes."""
    data = text.encode()
    bitmaps = [_bitmap(projector, file) for file in files]
    arguments = lib.mtmd_input_text()
    arguments.text, arguments.text_len = data, len(data)
    arguments.add_special, arguments.parse_special = True, True
    chunks = lib.mtmd_input_chunks_init()
    many = (ctypes.c_void_p * len(bitmaps))(*bitmaps)
    code = lib.mtmd_tokenize(projector.pointer, chunks, ctypes.byref(arguments), many, len(bitmaps))
    assert code == 0
    yield chunks
    lib.mtmd_input_chunks_free(chunks)
    for bitmap in bitmaps:
        lib.mtmd_bitmap_free(bitmap)


def expected_pieces(projector: Projector, text: str, files: list[bytes]) -> Pieces:
    """The same as pieces."""
    with tokenized(projector, text, files) as chunks:
        count = lib.mtmd_input_chunks_size(chunks)
        return [_piece(lib.mtmd_input_chunks_get(chunks, number)) for number in range(count)]


def pieces(tokens: TokenMap) -> Pieces:
    """A token map in the form of libmtmd's chunks."""
    found: Pieces = []
    at = 0
    for run in tokens.media:
        found += [tuple(tokens.ids[at : run.begin])] if run.begin > at else []
        found.append(("media", run.n_tokens, run.n_pos))
        at = run.begin + run.n_tokens
    return [*found, tuple(tokens.ids[at:])] if at < tokens.count else found


def _bitmap(projector: Projector, data: bytes) -> Any:
    buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
    bitmap = lib.mtmd_helper_bitmap_init_from_buf(projector.pointer, buffer, len(data), False)
    assert bitmap
    return bitmap


def _piece(chunk: Any) -> Any:
    if lib.mtmd_input_chunk_get_type(chunk) == lib.MTMD_INPUT_CHUNK_TYPE_TEXT:
        size = ctypes.c_size_t()
        tokens = lib.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(size))
        return tuple(tokens[: size.value])
    return ("media", lib.mtmd_input_chunk_get_n_tokens(chunk), lib.mtmd_input_chunk_get_n_pos(chunk))
