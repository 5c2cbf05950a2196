"""The one conversation that a context holds, and the ways to move it."""

from __future__ import annotations

from typing import final

import numpy as np

from runtime.checkpoint import Checkpoint
from runtime.errors import StateError
from runtime.llama import Context, Stretch
from runtime.memory import Memory
from runtime.prefix import Tokens, common_prefix, prefix_digest


@final
class Line:
    """A context's memory together with the tokens it stands for.

    `length` tokens are in the memory, which is ready for the next one. If something interrupted its last change,
    `settled` is False: the memory may be ahead of `length` until one of `cut`, `restore` and `clear` succeeds.
    `n_batch` is the most that `evaluate` takes at once.
    """

    def __init__(self, context: Context, memory: Memory, fingerprint: bytes) -> None:
        self.context = context
        self.memory = memory
        self.length = 0
        self.settled = True
        # While llama.cpp looks for room for several micro-batches it drops, for good, what the last of them no longer
        # sees, although the first still does. Cells in order of position hide that; a restored or cut window has none,
        # and one lost cell changes logits by 0.5 and more. The symptom is reported in llama.cpp PR 25297.
        self.n_batch = context.n_ubatch if memory.slides else context.n_batch
        self._fingerprint = fingerprint
        self._tokens = np.zeros(context.n_ctx, dtype=np.int32)

    @property
    def tokens(self) -> Tokens:
        """The tokens in the memory; a view that the next evaluation may change."""
        return self._tokens[: self.length]

    def common(self, prompt: Tokens) -> int:
        """How many leading tokens of `prompt` the memory stands for."""
        return common_prefix(self.tokens, prompt)

    def can_cut(self, length: int) -> bool:
        """Whether the line can go back to `length` tokens, or stay there, without a saved state."""
        if length == self.length and self.settled:
            return True
        first, last = self.context.position_range()
        return last >= length - 1 and self.memory.holds(first, length)

    def cut(self, length: int) -> None:
        """Go back to `length` tokens without a saved state.

        Raises `StateError`: with the line as it was if the memory cannot, with an empty line if llama.cpp disagrees.
        """
        if not self.can_cut(length):
            raise StateError(length, f"a {self.memory.kind} memory cannot go back there by itself")
        if length != self.length or not self.settled:
            self._move_to(length)
            if not self.context.cut(length):
                self.clear()
                raise StateError(length, "llama.cpp refuses to go back there")
            self.settled = True

    def save(self, serial: int) -> Checkpoint:
        """A checkpoint of this very moment; its bytes are `context.state_size()` many."""
        digest = prefix_digest(self._tokens, self.length)
        return Checkpoint(self.length, self.context.save_state(), digest, self._fingerprint, serial)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint.

        Raises `StateError`: with the line as it was if the checkpoint is not of these tokens and this model, with an
        empty line if llama.cpp refuses it.
        """
        offset = checkpoint.offset
        if checkpoint.fingerprint != self._fingerprint:
            raise StateError(offset, "it was saved by another model or with other options")
        if offset > self.length or checkpoint.digest != prefix_digest(self._tokens, offset):
            raise StateError(offset, "it was saved after other tokens than the memory holds")
        self._move_to(offset)
        # The order matters: only after the load does a recurrent part allow the attention past it to be cut.
        if not self.context.load_state(checkpoint.data) or not self.context.cut(offset):
            self.clear()
            raise StateError(offset, "llama.cpp refuses its bytes")
        last = self.context.position_range()[1]
        if last != offset - 1:
            self.clear()
            raise StateError(offset, f"its bytes end at position {last}")
        self.settled = True

    def evaluate(self, tokens: Tokens, *, logits: bool) -> None:
        """Append at most `n_batch` tokens in one call. Raises `DecodeError` and leaves the line unsettled."""
        begin, end = self.length, self.length + tokens.size
        self._tokens[begin:end] = tokens
        self.settled = False
        self.context.decode(Stretch(self._tokens[begin:end], begin, logits=logits))
        self.length, self.settled = end, True

    def clear(self) -> None:
        """Forget everything."""
        self._move_to(0)
        self.context.clear()
        self.settled = True

    def _move_to(self, length: int) -> None:
        """About to change the memory: whatever interrupts that, the line must not promise more than it will hold."""
        self.length, self.settled = length, False
