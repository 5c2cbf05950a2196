"""What kind of memory a model has, found out by trying."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.memory import MemoryKind, needs_states
from runtime.llama import Context, Stretch

_PROBE = np.zeros(8, dtype=np.int32)  # what the tokens are does not matter, token 0 exists in every vocabulary


@dataclass(frozen=True, slots=True)
class Memory:
    """How a context's memory can go back.

    `kind`: dense can be cut anywhere; the others need a state saved at or before the point they go back to. `window`:
    tokens a sliding-window layer looks at, its own included; 0 without such layers or when unknown. `state_bytes`: an
    upper bound for a partial state, 0 when dense.
    """

    kind: MemoryKind
    window: int
    state_bytes: int

    @property
    def cuts_anywhere(self) -> bool:
        """Whether it goes back to any token without a stored state."""
        return not needs_states(self.kind)

    @property
    def has_cells(self) -> bool:
        """Whether some layers keep a cell for a token, which copies of a sequence share."""
        return self.kind != "recurrent"

    @property
    def slides(self) -> bool:
        """Whether some layers keep only their window."""
        return self.kind in ("swa", "swa+recurrent")

    def holds(self, first_position: int, length: int) -> bool:
        """Whether a plain cut to `length` tokens leaves all that the next token looks at.

        `first_position` is the first position that every layer still holds. The next token stands at `length` and a
        window shows it positions above `length - window` at most. llama.cpp itself cuts a sliding-window memory without
        complaint when the window is gone.
        """
        if self.cuts_anywhere:
            return True
        if self.kind != "swa" or not self.window:
            return False
        return 0 <= first_position <= max(0, length - self.window + 1)


def probe(context: Context) -> Memory:
    """Evaluate a few tokens in an empty `context`, look at what it can undo and save, and leave it empty.

    A recurrent part shows by refusing to go back one token, attention by a full state that grows with the tokens, and a
    part that no cut brings back by a partial state smaller than the full one. The size of a sliding window has to
    be asked for: eight tokens are fewer than any.
    """
    half = _PROBE.size // 2
    context.decode(Stretch(_PROBE[:half], 0))
    full, partial = context.state_size(partial=False), context.state_size()
    context.decode(Stretch(_PROBE[half:], half))
    grown_full = context.state_size(partial=False) - full
    grown_partial = context.state_size() - partial
    goes_back = context.cut(_PROBE.size - 1)
    context.clear()

    window = context.model.n_swa
    slides = 0 < window < context.n_ctx
    if goes_back and not slides and (window or grown_partial == grown_full):
        # Either plain attention, or a window that the context is too short to leave.
        return Memory("dense", 0, 0)
    kind: MemoryKind = "swa"
    if not goes_back:
        kind = "recurrent" if not grown_full else "swa+recurrent" if slides else "hybrid"
    kept = min(window or context.n_ctx, context.n_ctx)
    return Memory(kind, window if slides else 0, partial + grown_partial * kept // half)
