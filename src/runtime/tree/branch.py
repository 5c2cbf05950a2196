"""One sequence of a context, and the ways to move it."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple, final

import numpy as np

from runtime.attachment import MediaChunk
from runtime.errors import StateError
from runtime.llama import Context, State, Stretch
from runtime.memory import Memory
from runtime.prefix import Tokens, common_prefix
from runtime.tree.checkpoint import Checkpoint
from runtime.tree.positions import Positions

_LATE = 64

_serials = count()


def most_at_once(context: Context, memory: Memory) -> int:
    """The most tokens of one decode: one micro-batch where a window slides, a whole batch elsewhere."""
    # While llama.cpp looks for room for several micro-batches it drops, for good, what the last of them no longer
    # sees, although the first still does. Cells in order of position hide that; a restored or cut window has none,
    # and one lost cell changes logits by 0.5 and more. The symptom is reported in llama.cpp PR 25297.
    return context.n_ubatch if memory.slides else context.n_batch


@final
class Run(NamedTuple):
    """Tokens [begin, end) of a branch whose cells were filled by evaluations numbered `serial`.

    Branches that were copied from one another share the cells of runs of one number, as far as both have them.
    """

    serial: int
    begin: int
    end: int


@final
class Branch:
    """A sequence of a context together with the tokens that it stands for.

    `length` tokens are in the memory, which is ready for the next one. Media are tokens too, negative ones that
    identify them, and may take fewer positions than tokens. If something interrupted its last change, `settled` is
    False: the memory may be ahead of `length` until one of `cut`, `restore` and `clear` succeeds.
    `n_batch` is the most that `evaluate` takes at once. `used`: the number of the last prompt that was evaluated on it.
    """

    def __init__(self, context: Context, memory: Memory, fingerprint: bytes, sequence: int = 0) -> None:
        self.context = context
        self.memory = memory
        self.sequence = sequence
        self.length = 0
        self.settled = True
        self.used = 0
        self.n_batch = most_at_once(context, memory)
        self.runs: list[Run] = []
        self._writes_on = False
        self._fingerprint = fingerprint
        self._tokens = np.zeros(0, dtype=np.int32)
        self._positions = Positions()

    @property
    def tokens(self) -> Tokens:
        """The tokens in the memory; a view that the next change may change."""
        return self._tokens[: self.length]

    def common(self, prompt: Tokens) -> int:
        """How many leading tokens of `prompt` the memory stands for."""
        return common_prefix(self.tokens, prompt)

    def holds(self, checkpoint: Checkpoint) -> bool:
        """Whether these are the tokens after which it was saved, and maybe more."""
        offset = checkpoint.offset
        if not 0 < offset <= self.length:
            return False
        # The last tokens tell most of those apart that differ, in no time.
        late = max(0, offset - _LATE)
        own, its = self._tokens[:offset], checkpoint.tokens
        return np.array_equal(own[late:], its[late:]) and np.array_equal(own[:late], its[:late])

    def covers(self, other: Branch) -> bool:
        """Whether it has all tokens of another branch, and maybe more."""
        return other.length <= self.length and np.array_equal(self._tokens[: other.length], other.tokens)

    def position(self, offset: int) -> int:
        """The position of the token after the first `offset` tokens."""
        return self._positions.after(offset)

    @property
    def last_position(self) -> int:
        """The greatest position in the memory, -1 if it is empty."""
        return self._positions.last(self.length)

    def whole(self, length: int) -> int:
        """The most of the first `length` tokens that do not end inside media."""
        return self._positions.whole(length)

    def can_cut(self, length: int) -> bool:
        """Whether the branch can go back to `length` tokens, or stay there, without a saved state."""
        if length == self.length and self.settled:
            return True
        first, last = self.context.position_range(self.sequence)
        there = last >= self._positions.last(length) and self.whole(length) == length
        return there and self.memory.holds(first, self.position(length))

    def cut(self, length: int) -> None:
        """Go back to `length` tokens without a saved state.

        Raises `StateError`: with the branch as it was if the memory cannot, with an empty one if llama.cpp disagrees.
        """
        if not self.can_cut(length):
            raise StateError(length, f"a {self.memory.kind} memory cannot go back there by itself")
        if length != self.length or not self.settled:
            self._move_to(length)
            if not self.context.cut(self.position(length), self.sequence):
                self.clear()
                raise StateError(length, "llama.cpp refuses to go back there")
            self.settled = True

    @property
    def state_size(self) -> int:
        """Bytes of a checkpoint taken now."""
        return self.context.state_size(self.sequence)

    def save(self, into: State | None = None) -> Checkpoint:
        """A checkpoint of this very moment, of `state_size` bytes; `into` is a buffer of so many to use again."""
        data = self.context.save_state(self.sequence, into=into)
        return Checkpoint(self.tokens.copy(), data, self._fingerprint, self._positions)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint.

        Raises `StateError`: with the branch as it was if the checkpoint is not of these tokens and this model, with an
        empty one if llama.cpp refuses it.
        """
        offset = checkpoint.offset
        if checkpoint.fingerprint != self._fingerprint:
            raise StateError(offset, "it was saved by another model or with other options")
        if not self.holds(checkpoint):
            raise StateError(offset, "it was saved after other tokens than the memory holds")
        self._move_to(offset)
        # The order matters: only after the load does a recurrent part allow the attention past it to be cut.
        if not self.context.load_state(checkpoint.data, self.sequence) or not self.context.cut(
            self.position(offset), self.sequence
        ):
            self.clear()
            raise StateError(offset, "llama.cpp refuses its bytes")
        last = self.context.position_range(self.sequence)[1]
        if last != self.last_position:
            self.clear()
            raise StateError(offset, f"its bytes end at position {last}")
        self.settled = True

    def evaluate(self, tokens: Tokens, *, logits: bool) -> None:
        """Append at most `n_batch` tokens in one call. Raises `DecodeError` and leaves the branch unsettled."""
        self.settled = False
        self.context.decode(Stretch(tokens, self.position(self.length), self.sequence, logits))
        self.append(tokens)
        self.settled = True

    def evaluate_media(self, tokens: Tokens, chunk: MediaChunk) -> None:
        """Append media, for which `tokens` stand. Raises as `MediaChunk.evaluate` and leaves the branch unsettled."""
        self.settled = False
        chunk.evaluate(self.context, self.position(self.length), self.sequence, self.n_batch)
        self.append(tokens, chunk.n_pos)
        self.settled = True

    def append(self, tokens: Tokens, n_pos: int | None = None) -> None:
        """`tokens` have been evaluated at the end of the sequence; media took `n_pos` positions, others one each."""
        begin, end = self.length, self.length + tokens.size
        if end > self._tokens.size:
            self._tokens = np.concatenate([self.tokens, np.zeros(max(end, 256), dtype=np.int32)])
        self._tokens[begin:end] = tokens
        if n_pos is not None:
            last = self.context.position_range(self.sequence)[1]
            self._positions = self._positions.with_media(begin, end, n_pos, last)
        self.length = end
        if self._writes_on:
            self.runs[-1] = self.runs[-1]._replace(end=end)
        else:
            self.runs.append(Run(next(_serials), begin, end))
            self._writes_on = True

    def follow(self, source: Branch) -> None:
        """Become a copy of another branch of the context that shares its cells, whatever this one was."""
        self._move_to(0)
        self.context.copy(source.sequence, self.sequence)
        self._tokens = source.tokens.copy()
        self._positions = source._positions
        self.runs = list(source.runs)
        self.length, self.settled = source.length, True

    def assume(self, tokens: Tokens, positions: Positions) -> None:
        """Stand for `tokens` of which no cell is needed: a recurrent state that holds all of them is restored next."""
        self.clear()
        self._tokens, self.length, self.settled = np.array(tokens), tokens.size, False
        self._positions = positions

    def load(self, data: State, tokens: Tokens, positions: Positions) -> None:
        """Become the full state after `tokens`, which stand at `positions`, whatever this branch was.

        Raises `StateError`, with an empty branch, if llama.cpp refuses it.
        """
        self.clear()
        self.settled = False
        if not self.context.load_state(data, self.sequence, partial=False):
            self.clear()
            raise StateError(tokens.size, "llama.cpp refuses its bytes, or has no room for them")
        self.append(tokens)
        self._positions = positions
        last = self.context.position_range(self.sequence)[1]
        if last != self.last_position:
            self.clear()
            raise StateError(tokens.size, f"its bytes end at position {last}")
        self.settled = True

    def clear(self) -> None:
        """Forget everything."""
        self._move_to(0)
        self.context.cut(0, self.sequence)
        self.settled = True

    def _move_to(self, length: int) -> None:
        """About to change the memory: whatever interrupts that, the branch must not promise more than it will hold."""
        self.length, self.settled = length, False
        self.runs = [run._replace(end=min(run.end, length)) for run in self.runs if run.begin < length]
        self._positions = self._positions.up_to(length)
        self._writes_on = False
