"""Room for what is in evaluation: cells for its tokens, and for its windows where layers slide."""

from __future__ import annotations

from typing import final

from runtime.tree.branch import Branch, most_at_once
from runtime.tree.job import Job
from runtime.tree.pool import Pool
from runtime.tree.retention import Retention


@final
class Room:
    """What of a context is taken and promised, and what idle branches give up so that it suffices.

    `jobs` are the requests in evaluation, the list that the tree keeps.
    """

    def __init__(self, pool: Pool, retention: Retention, jobs: list[Job]) -> None:
        self._pool = pool
        self._memory = pool.memory
        self._context = pool.context
        self._retention = retention
        self._jobs = jobs

    @property
    def for_decode(self) -> int:
        """The most tokens of one decode now.

        Where a window slides they must find cells beside all windows: llama.cpp would split the batch otherwise, and
        drop what is needed (see `most_at_once`).
        """
        most = most_at_once(self._context, self._memory)
        return max(1, min(most, self._pool.window_room())) if self._memory.slides else most

    def missing(self, more: int = 0) -> int:
        """Cells that are held or promised to jobs, and so many more, beyond those there are."""
        if not self._memory.has_cells:
            return 0
        return max(0, self._pool.cells() + sum(job.owed for job in self._jobs) + more - self._context.n_ctx)

    def suffices_for(self, tokens: int) -> bool:
        """Whether one more job would have a sequence and so many cells, if all that is idle gave way."""
        if len(self._jobs) == self._pool.capacity:
            return False
        if not self._jobs or not self._memory.has_cells:
            return True
        if self._memory.slides:
            window = self._memory.window
            windows = [min(job.branch.length + job.owed, window) for job in self._jobs]
            if sum(windows) + min(tokens, window) + self._reserve > self._pool.window_cells:
                return False
        taken = self._pool.cells(self._pool.busy) + sum(job.owed for job in self._jobs)
        return taken + tokens <= self._context.n_ctx

    def make(self, more: int = 0) -> None:
        """Let idle branches give way until jobs have the cells they were promised, and there are so many more."""
        while (missing := self.missing(more)) > 0 and self._retention.free_cells(missing):
            pass

    def make_windows(self, cells: int | None = None, spared: Branch | None = None) -> bool:
        """Let idle branches give way until so many cells of the layers that slide are free; whether they are.

        By default what a decode shall have at least.
        """
        if not self._memory.slides:
            return True
        wanted = self._reserve if cells is None else cells
        while self._pool.window_room({job.branch: job.owed for job in self._jobs}) < wanted:
            if not self._retention.free_sequence(spared):
                return False
        return True

    @property
    def _reserve(self) -> int:
        """Cells beside the windows that a decode shall have at least, if idle branches can give way."""
        return min(self._context.n_ubatch, self._pool.window_cells // 4)
