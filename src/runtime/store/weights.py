"""What identifies a model's weights, read in a fraction of the time that reading all of them takes.

All metadata that shape what is computed are read, and of each tensor its name, type and shape, its first and last block
and two between them; all of it if it is small. Training, merging and quantising change tensors throughout, so other
weights differ there. A change of a few values in the middle of one large tensor is not seen.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spanparse.errors import SourceError
from spanparse.gguf_header import GgufHeader

_BLOCKS, _BLOCK_BYTES = 4, 8192
_DEFAULT_ALIGNMENT = 32  # GGUF specification: general.alignment
_MOST_DIMENSIONS = 4  # GGML_MAX_DIMS
_LONG_ROPE = "rope_factors_long.weight"
_VOCABULARY = "tokenizer.ggml."
# They describe the file or are read by nobody who evaluates tokens: an edited template keeps all states.
_IDLE = ("general.", "quantize.", "split.", "tokenizer.chat_template")
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class Weights:
    """Digests of a model file, in hexadecimal.

    `long_rope_beyond`: the model turns its keys otherwise in contexts of more tokens than this; None if it does not.
    """

    architecture: str
    vocabulary: str
    tensors: str
    long_rope_beyond: int | None

    @property
    def digest(self) -> str:
        """All of it in one text."""
        return f"{self.architecture}{self.vocabulary}{self.tensors}"


class _Tensor(NamedTuple):
    name: str
    description: bytes
    offset: int


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """The digests of the GGUF file `path`, or of all files of a model that is split into several.

    Reads metadata and at most 32 KB of each tensor. Raises `SourceError` for a file that is cut short, holds no
    tensors or is no GGUF.
    """
    architecture, vocabulary, tensors = (hashlib.blake2b(digest_size=16) for _ in range(3))
    trained_length, has_long_rope, count = None, False, 0
    for shard in _shards(os.fspath(path)):
        with GgufHeader(shard) as header:
            for key in sorted(header):
                if key.startswith(_VOCABULARY):
                    vocabulary.update(key.encode() + header.raw(key))
                elif key == "general.architecture" or not key.startswith(_IDLE):
                    architecture.update(key.encode() + header.raw(key))
            found = list(_tensors(header))
            count += len(found)
            for block in _blocks(header, found):
                tensors.update(block)
            if name := header.text("general.architecture"):
                trained_length = header.integer(f"{name}.rope.scaling.original_context_length") or trained_length
            has_long_rope |= any(tensor.name == _LONG_ROPE for tensor in found)
    if not count:
        raise SourceError(os.fspath(path), "this GGUF holds no tensors: it is no model")
    digests = architecture.hexdigest(), vocabulary.hexdigest(), tensors.hexdigest()
    return Weights(*digests, trained_length if has_long_rope else None)


def _shards(path: str) -> list[str]:
    match = _SHARD.fullmatch(path)
    if match is None:
        return [path]
    return [f"{match[1]}-{number:05}-of-{match[3]}.gguf" for number in range(1, int(match[3]) + 1)]


def _tensors(header: GgufHeader) -> Iterator[_Tensor]:
    """The tensors that the file describes, in its order; layout after ggml's `docs/gguf.md`."""
    order = header.order
    with open(header.path, "rb") as file:
        file.seek(header.end)

        def take(size: int) -> bytes:
            data = file.read(size)
            if len(data) != size:
                raise SourceError(header.path, f"GGUF tensors at byte {file.tell()} are cut short")
            return data

        for number in range(header.n_tensors):
            (length,) = struct.unpack(order + "Q", take(8))
            if length > _BLOCK_BYTES:
                raise SourceError(header.path, f"GGUF tensor number {number} says its name is {length} bytes long")
            name = take(length)
            (dimensions,) = struct.unpack(order + "I", take(4))
            if dimensions > _MOST_DIMENSIONS:
                raise SourceError(header.path, f"GGUF tensor number {number} says it has {dimensions} dimensions")
            shape_and_type = take(8 * dimensions + 4)
            (offset,) = struct.unpack(order + "Q", take(8))
            yield _Tensor(name.decode("utf-8", "replace"), name + shape_and_type, offset)


def _blocks(header: GgufHeader, tensors: list[_Tensor]) -> Iterator[bytes]:
    """Description and samples of each tensor; one ends where the next begins."""
    alignment = header.integer("general.alignment") or _DEFAULT_ALIGNMENT
    with open(header.path, "rb") as file:
        start = -(-_descriptions_end(header, tensors) // alignment) * alignment
        data_size = os.fstat(file.fileno()).st_size - start
        offsets = sorted({tensor.offset for tensor in tensors})
        # The first of a model's files may hold no tensors.
        ends = dict(zip(offsets, [*offsets[1:], data_size], strict=False))
        for tensor in tensors:
            yield tensor.description
            size = ends[tensor.offset] - tensor.offset
            if tensor.offset > data_size:
                raise SourceError(header.path, f"GGUF tensor {tensor.name} lies beyond the end of the file")
            if size <= _BLOCKS * _BLOCK_BYTES:
                file.seek(start + tensor.offset)
                yield file.read(size)
                continue
            for position in np.linspace(0, size - _BLOCK_BYTES, _BLOCKS).astype(np.int64).tolist():
                file.seek(start + tensor.offset + position)
                yield file.read(_BLOCK_BYTES)


def _descriptions_end(header: GgufHeader, tensors: list[_Tensor]) -> int:
    # Beside name, shape and type, each description has the name's length, the number of dimensions and the offset.
    return header.end + sum(len(tensor.description) + 8 + 4 + 8 for tensor in tensors)
