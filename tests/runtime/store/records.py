"""Records that need no model."""

from __future__ import annotations

import numpy as np

from runtime.llama import State
from runtime.store import Identity, Name
from runtime.store.record import Record

IDENTITY = Identity("1", "little", "0", "a" * 32, "b" * 32, "c" * 32, "f16", "short")


def make_record(n_tokens: int, size: int = 5000, n_logits: int = 100, identity: Identity = IDENTITY) -> Record:
    """A record of `n_tokens` tokens with a random state of `size` bytes and `n_logits` logits; the same each time."""
    rng = np.random.default_rng(n_tokens)
    state = rng.integers(0, 256, size, dtype=np.uint8)
    logits = rng.random(n_logits, dtype=np.float32) if n_logits else None
    return Record(Name(identity.digest, n_tokens, f"{n_tokens:032x}"), state, logits)


def fresh(size: int, rest: int) -> State:
    """A buffer for a state, as the store gives them: larger than asked for."""
    return np.full(size + 3, 255, dtype=np.uint8)


def same(a: Record, b: Record) -> bool:
    """Whether two records hold the same."""
    if (a.logits is None) != (b.logits is None):
        return False
    logits = a.logits is None or np.array_equal(a.logits, b.logits)
    return a.name == b.name and logits and np.array_equal(a.state, b.state)
