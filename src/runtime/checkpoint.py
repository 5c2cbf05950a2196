"""Saved memory states and the store that keeps them within a budget."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

from runtime.errors import StoreFull
from runtime.llama import ContextOptions, State
from runtime.report import Reason

_SAMPLES, _SAMPLE_BYTES = 64, 65536


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The part of a memory that cannot be cut, after exactly `offset` tokens.

    `digest` identifies those tokens (`prefix_digest`), `fingerprint` the model and the options that shape the bytes.
    `serial` counts requests of the engine: a larger one was saved later.
    """

    offset: int
    data: State = field(repr=False)
    digest: bytes
    fingerprint: bytes
    serial: int

    @property
    def size(self) -> int:
        """Bytes held."""
        return self.data.nbytes


@final
class CheckpointStore:
    """The checkpoints of one line of conversation, by offset.

    At no time does it hold more than `checkpoints` of them or more than `bytes` in all; None sets no limit. It does not
    choose what to give up: callers drop first, then add.
    """

    def __init__(self, *, checkpoints: int | None = None, bytes: int | None = None) -> None:
        self.checkpoints = checkpoints
        self.bytes_limit = bytes
        self._by_offset: dict[int, Checkpoint] = {}
        self._lost: dict[int, Reason] = {}

    def __len__(self) -> int:
        return len(self._by_offset)

    def __iter__(self) -> Iterator[Checkpoint]:
        """All checkpoints, in the order of their offsets."""
        return iter(sorted(self._by_offset.values(), key=lambda checkpoint: checkpoint.offset))

    def __contains__(self, offset: int) -> bool:
        return offset in self._by_offset

    def __getitem__(self, offset: int) -> Checkpoint:
        return self._by_offset[offset]

    @property
    def bytes(self) -> int:
        """Bytes held by all checkpoints."""
        return sum(checkpoint.size for checkpoint in self._by_offset.values())

    @property
    def lost(self) -> Mapping[int, Reason]:
        """Offsets on the present line whose state was given up (evicted) or refused (budget)."""
        return MappingProxyType(self._lost)

    def nearest(self, length: int) -> Checkpoint | None:
        """The checkpoint with the largest offset that is at most `length`."""
        return max((c for c in self._by_offset.values() if c.offset <= length), key=lambda c: c.offset, default=None)

    def fits(self, size: int) -> bool:
        """Whether one more checkpoint of `size` bytes is within the budget."""
        if self.checkpoints is not None and len(self) + 1 > self.checkpoints:
            return False
        return self.bytes_limit is None or self.bytes + size <= self.bytes_limit

    def reserve(self, offset: int, size: int) -> None:
        """Make sure that a state of `size` bytes may be taken at `offset` now.

        Called before the bytes exist, so that the budget holds while they are copied. Raises `StoreFull`, and remembers
        that a state is missing there.
        """
        if not self.fits(size):
            self._lost[offset] = "budget"
            raise StoreFull(offset, size)

    def add(self, checkpoint: Checkpoint) -> None:
        """Keep `checkpoint`. Raises `StoreFull` if it does not fit, ValueError if its offset is taken."""
        if checkpoint.offset in self._by_offset:
            raise ValueError(f"there is a checkpoint at {checkpoint.offset} already")
        self.reserve(checkpoint.offset, checkpoint.size)
        self._by_offset[checkpoint.offset] = checkpoint
        self._lost.pop(checkpoint.offset, None)

    def drop(self, offset: int, reason: Reason) -> None:
        """Give up the checkpoint at `offset`. Raises KeyError if there is none."""
        del self._by_offset[offset]
        self._lost[offset] = reason

    def leave_line(self, length: int) -> None:
        """The conversation goes on differently after `length` tokens: forget all that lies past them."""
        for offset in [offset for offset in self._by_offset if offset > length]:
            del self._by_offset[offset]
        for offset in [offset for offset in self._lost if offset > length]:
            del self._lost[offset]

    def check_integrity(self) -> None:
        """Raise AssertionError unless the books are right and the budget is kept."""
        assert all(offset == checkpoint.offset for offset, checkpoint in self._by_offset.items()), "wrong offset"
        assert not self._by_offset.keys() & self._lost.keys(), "a checkpoint is both kept and lost"
        assert self.checkpoints is None or len(self) <= self.checkpoints, "too many checkpoints"
        assert self.bytes_limit is None or self.bytes <= self.bytes_limit, "too many bytes"


def fingerprint(path: str | os.PathLike[str], options: ContextOptions) -> bytes:
    """16 bytes that identify a model file and the options on which the bytes of its states depend.

    Reads samples spread over the file (at most 4 MB) besides its length: enough to tell models apart, quick enough for
    files of any size, and blind to a change that misses every sample.
    """
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest.update(f"{size} exact={options.exact}".encode())
        for index in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * index // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.digest()
