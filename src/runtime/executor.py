"""Puts plans into practice on one line of conversation and its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from planner import Plan
from runtime.checkpoint import CheckpointStore
from runtime.errors import StateError, StoreFull
from runtime.line import Line
from runtime.prefix import Tokens
from runtime.report import Clock


@dataclass(frozen=True, slots=True)
class Prefill:
    """How far the evaluation of a prompt went, in tokens, and what it took."""

    evaluated: int
    breaks: int
    saves: int
    cancelled: bool


@final
class Executor:
    """Moves `line` and keeps `store` true to it: every checkpoint in the store was taken on this line."""

    def __init__(self, line: Line, store: CheckpointStore) -> None:
        self.line = line
        self.store = store

    def begin(self, plan: Plan) -> None:
        """Put the line where the plan begins.

        Raises `StateError` if the state cannot be used; its checkpoint is gone from the store then, and the line holds
        what it held, or nothing.
        """
        restore = plan.restore
        try:
            if restore is None or not restore.offset:
                self.line.clear()
            elif restore.source == "checkpoint":
                self.line.restore(self.store[restore.offset])
            else:
                self.line.cut(restore.offset)
        except StateError as error:
            self._give_up(error.offset)
            raise
        finally:
            if not self.line.length:
                self.store.leave_line(0)

    def prefill(self, prompt: Tokens, plan: Plan, cancel_after: int | None, serial: int, clock: Clock) -> Prefill:
        """Execute the plan's steps, or stop once `cancel_after` tokens were evaluated.

        It stops between decodes of a single micro-batch only: llama.cpp leaves a recurrent memory ahead of its tokens
        when a decode is aborted halfway. Raises `DecodeError`; `recover` then makes the line usable.
        """
        context, start, breaks, saves = self.line.context, self.line.length, 0, 0
        largest = self.line.n_batch if cancel_after is None else context.n_ubatch
        self._evict(plan, None)
        for step in plan.steps:
            if step.begin == step.end:
                saves += self._take(plan, step.end, serial, clock)
            for begin in range(step.begin, step.end, largest):
                end = min(begin + largest, step.end)
                with clock.phase("prefill"):
                    self.line.evaluate(prompt[begin:end], logits=end == prompt.size)
                    if end == step.end:
                        context.synchronize()
                if end == step.end:
                    breaks += end < prompt.size
                    if step.save:
                        saves += self._take(plan, end, serial, clock)
                if cancel_after is not None and end - start >= cancel_after and end < prompt.size:
                    return Prefill(end - start, breaks, saves, cancelled=True)
        return Prefill(prompt.size - start, breaks, saves, cancelled=False)

    def recover(self) -> None:
        """After a failed evaluation: go back to the longest part of the conversation whose state is known."""
        while not self.line.settled:
            try:
                if self.line.can_cut(self.line.length):
                    self.line.cut(self.line.length)
                elif (checkpoint := self.store.nearest(self.line.length)) is not None:
                    self.line.restore(checkpoint)
                else:
                    self.line.clear()
            except StateError as error:
                self._give_up(error.offset)
        self.store.leave_line(self.line.length)

    def _give_up(self, offset: int) -> None:
        """Make sure that the same failure cannot happen again."""
        if offset in self.store:
            self.store.drop(offset, "state-missing")
        else:
            self.line.clear()

    def _evict(self, plan: Plan, before: int | None) -> None:
        for eviction in plan.evict:
            if eviction.before == before and eviction.offset in self.store:
                self.store.drop(eviction.offset, "evicted")

    def _take(self, plan: Plan, end: int, serial: int, clock: Clock) -> bool:
        """Make the room that the plan makes for the state at `end`, and keep that state."""
        self._evict(plan, end)
        with clock.phase("save"):
            return self._save(serial)

    def _save(self, serial: int) -> bool:
        """Keep the state of this moment, unless it is kept already or does not fit what the budget leaves."""
        if self.line.length in self.store:
            return False
        try:
            self.store.reserve(self.line.length, self.line.context.state_size())
        except StoreFull:
            return False
        self.store.add(self.line.save(serial))
        return True
