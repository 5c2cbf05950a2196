"""The kinds of memory, and how each goes back. `runtime.memory` finds out which of them a model has."""

from __future__ import annotations

from typing import Literal

MemoryKind = Literal["dense", "swa", "recurrent", "hybrid", "swa+recurrent"]
"""What the layers keep: every token's cell, those of a sliding window, one state of all tokens, and mixtures."""


def needs_states(kind: MemoryKind) -> bool:
    """Whether such a memory ever goes back to a stored state: a dense one is cut instead."""
    return kind != "dense"


def can_cut(kind: MemoryKind, live: int | None, window: int | None) -> bool:
    """Whether such a memory, of `live` tokens under a sliding window of `window`, can be cut anywhere."""
    # Nothing has left the window yet: every position is still there.
    fits = live is not None and window is not None and live <= window
    return not needs_states(kind) or (kind == "swa" and fits)
