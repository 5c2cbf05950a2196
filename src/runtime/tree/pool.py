"""The sequences of a context: which are in use, and how many cells of memory they hold together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import final

from runtime.llama import Context
from runtime.memory import Memory
from runtime.tree.branch import Branch

_CELLS = 256
"""llama.cpp rounds the number of cells up to a multiple of so many."""


@final
class Pool:
    """The branches of a context. Cells that branches share are counted once; a recurrent memory has none.

    `busy`: those on which a request is being evaluated. `tip`: the one whose live end the most recent request left.
    `capacity`: how many branches may stay; with `reserve` one sequence less than there are, for work between two calls.
    `window_cells`: those of the layers that slide, where each branch has a window of its own; 0 without such layers.
    """

    def __init__(self, context: Context, memory: Memory, fingerprint: bytes, *, reserve: bool = False) -> None:
        self.context = context
        self.memory = memory
        self._fingerprint = fingerprint
        self.busy: set[Branch] = set()
        self.tip: Branch | None = None
        self._branches: list[Branch] = []
        self.capacity: int = max(1, context.n_seq_max - reserve)
        self.window_cells = 0
        if memory.slides:
            # As llama_kv_cache_iswa has it.
            cells = memory.window * context.n_seq_max + context.n_ubatch
            self.window_cells = min(context.n_ctx, -(-cells // _CELLS) * _CELLS)
        self._free = list(range(context.n_seq_max))
        heapify(self._free)

    def __iter__(self) -> Iterator[Branch]:
        """All branches, in the order in which they came to be."""
        return iter(tuple(self._branches))

    def __len__(self) -> int:
        return len(self._branches)

    @property
    def has_free_sequence(self) -> bool:
        """Whether one more branch may stay."""
        return len(self) < self.capacity

    def idle(self) -> list[Branch]:
        """Branches that are not busy, the least recently used first, the tip last."""
        idle = [branch for branch in self._branches if branch not in self.busy]
        return sorted(idle, key=lambda branch: (branch is self.tip, branch.used))

    def new(self) -> Branch:
        """An empty branch on a free sequence, the reserved one too. Raises IndexError if there is none."""
        branch = Branch(self.context, self.memory, self._fingerprint, heappop(self._free))
        self._branches.append(branch)
        return branch

    def drop(self, branch: Branch) -> None:
        """Forget a branch and free its sequence."""
        self._branches.remove(branch)
        self.busy.discard(branch)
        if branch is self.tip:
            self.tip = None
        branch.clear()
        heappush(self._free, branch.sequence)

    def cells(self, branches: Iterable[Branch] | None = None) -> int:
        """How many cells some branches hold together, all of them by default."""
        if not self.memory.has_cells:
            return 0
        ends: dict[int, tuple[int, int]] = {}
        for branch in self._branches if branches is None else branches:
            for run in branch.runs:
                _, end = ends.get(run.serial, (0, 0))
                ends[run.serial] = (run.begin, max(end, run.end))
        return sum(end - begin for begin, end in ends.values())

    def window_room(self, owed: Mapping[Branch, int] | None = None) -> int:
        """How many of the `window_cells` no window takes, also when branches have got the tokens that they are owed."""
        grown = owed or {}
        taken = (min(branch.length + grown.get(branch, 0), self.memory.window) for branch in self._branches)
        return self.window_cells - sum(taken)

    def own_cells(self, branch: Branch) -> int:
        """How many cells a branch shares with no other: those of its last tokens."""
        return self.cells() - self.cells(other for other in self._branches if other is not branch)

    def check_integrity(self) -> None:
        """Raise AssertionError unless sequences and cells are as llama.cpp has them."""
        used = sorted([*self._free, *(branch.sequence for branch in self._branches)])
        assert used == list(range(self.context.n_seq_max)), "a sequence is lost or used twice"
        for sequence in self._free:
            assert self.context.position_range(sequence) == (-1, -1), f"sequence {sequence} is free but not empty"
        for branch in self._branches:
            self._check(branch)
        assert self.cells() <= self.context.n_ctx, "more cells than there are"

    def _check(self, branch: Branch) -> None:
        assert branch.settled, "a branch was left in the middle of a change"
        last = self.context.position_range(branch.sequence)[1]
        # The window of a branch that was cut back is gone, and is not needed before a state is restored.
        assert last == branch.last_position, "a sequence does not end where its branch does"
        assert sum(run.end - run.begin for run in branch.runs) == branch.length or not self.memory.has_cells
