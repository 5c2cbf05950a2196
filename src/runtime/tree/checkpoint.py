"""Saved memory states and the store that keeps them within a budget."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import final

from planner import Budget, Loss, States
from planner import State as Entry
from runtime.llama import ContextOptions, State
from runtime.prefix import Tokens
from runtime.tree.positions import Positions

_log = logging.getLogger(__name__)

_SAMPLES, _SAMPLE_BYTES = 64, 65536


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The part of a memory that cannot be cut, after exactly these tokens.

    `fingerprint` identifies the model and the options that shape the bytes. `positions`: those of the tokens.
    """

    tokens: Tokens = field(repr=False)
    data: State = field(repr=False)
    fingerprint: bytes
    positions: Positions = field(repr=False, default=Positions())

    @property
    def offset(self) -> int:
        """The number of tokens."""
        return self.tokens.size

    @property
    def size(self) -> int:
        """Bytes held."""
        return self.data.nbytes


@final
class CheckpointStore:
    """The bytes of the states that the planner's books (`states`) say are kept, within a budget at every moment.

    It does not choose what to give up: callers make room first, then save. One buffer of a state that was given up is
    kept for the next one of its size: memory that was used before is faster. It counts for the bytes of the budget.
    """

    def __init__(self, states: States, budget: Budget) -> None:
        self.states = states
        self.budget = budget
        self._checkpoints: dict[str, Checkpoint] = {}
        self._spare: State | None = None

    def __len__(self) -> int:
        return len(self._checkpoints)

    def __iter__(self) -> Iterator[Checkpoint]:
        """All checkpoints, in the order in which they were saved."""
        return iter(tuple(self._checkpoints.values()))

    def __getitem__(self, identity: str) -> Checkpoint:
        """A checkpoint by its identity in the books."""
        return self._checkpoints[identity]

    @property
    def bytes(self) -> int:
        """Bytes held by all checkpoints."""
        return sum(checkpoint.size for checkpoint in self)

    def fits(self, size: int) -> bool:
        """Whether one more checkpoint of `size` bytes is within the budget."""
        if self.budget.checkpoints is not None and len(self) + 1 > self.budget.checkpoints:
            return False
        return self.budget.bytes is None or self.bytes + size <= self.budget.bytes

    def add(self, entry: Entry, save: Callable[[State | None], Checkpoint]) -> None:
        """Keep what `save` makes, given a buffer of the right size if there is one, for an entry of the books."""
        assert self.fits(entry.size), "room is made before a state is saved"
        spare, self._spare = self._spare, None
        if spare is not None and spare.nbytes != entry.size:
            # Freed before the new one exists.
            spare = None
        try:
            self._checkpoints[entry.identity] = save(spare)
        except BaseException:
            self.states.give_up(entry.identity, "state-missing")
            raise

    def give_up(self, identity: str, why: Loss) -> Entry:
        """Strike a checkpoint out of the books and drop it. Raises KeyError if there is none of that name."""
        entry = self.states.give_up(identity, why)
        self.drop([entry])
        return entry

    def drop(self, entries: Iterable[Entry]) -> None:
        """Drop the bytes of what has been struck out of the books."""
        for entry in entries:
            about = {"prompt": entry.owner, "offset": entry.offset, "bytes": entry.size}
            _log.info("checkpoint given up", extra=about)
            self._spare = self._checkpoints.pop(entry.identity).data

    def check_integrity(self) -> None:
        """Raise AssertionError unless books and bytes agree and the budget is kept."""
        assert self._checkpoints.keys() == {entry.identity for entry in self.states}, "books and states differ"
        for entry in self.states:
            checkpoint = self[entry.identity]
            assert (entry.offset, entry.size) == (checkpoint.offset, checkpoint.size), "a state is not as in the books"
        assert self.budget.checkpoints is None or len(self) <= self.budget.checkpoints, "too many checkpoints"
        held = self.bytes + (0 if self._spare is None else self._spare.nbytes)
        assert self.budget.bytes is None or held <= self.budget.bytes, "too many bytes"


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
