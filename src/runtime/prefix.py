"""Token prefixes: how much two sequences share, and the identity of a prefix."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]
"""A sequence of token ids, one dimension, contiguous."""


class Shared(NamedTuple):
    """How many leading tokens of a prompt appeared in earlier prompts, and how many of those were evaluated.

    The two differ while a prompt with them is being evaluated, and after one that was cancelled or failed. `nearest`:
    the number of the latest of the prompts that share most, None for the first prompt.
    """

    prompted: int
    evaluated: int
    nearest: int | None


def as_tokens(ids: Sequence[int] | Tokens) -> Tokens:
    """`ids` as a contiguous array; an array that is already one is returned as it is."""
    return np.ascontiguousarray(ids, dtype=np.int32)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """The number of leading tokens that `a` and `b` share."""
    n = min(a.size, b.size)
    if n == 0:
        return 0
    unequal = a[:n] != b[:n]
    first = int(unequal.argmax())
    return first if unequal[first] else n


def prefix_digest(tokens: Tokens, length: int) -> bytes:
    """16 bytes that identify the first `length` tokens, the same on every machine."""
    return hashlib.blake2b(tokens[:length].astype("<i4", copy=False).data, digest_size=16).digest()
