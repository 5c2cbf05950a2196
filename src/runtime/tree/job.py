"""One request in evaluation."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np

from planner import Plan
from planner.policies.tiles import TILE
from runtime.attachment import MediaStretch
from runtime.llama import Stretch
from runtime.prefix import Tokens
from runtime.prompt import Prompt
from runtime.report import Clock, Refused, Report, Restored, Reuse, Source
from runtime.store.record import Logits
from runtime.tree.archive import Held, Loaded
from runtime.tree.branch import Branch


class Keeper(Protocol):
    """What a job asks of the tree that it moves in, which keeps the states and the branches.

    Nothing here is for use by several threads at once.
    """

    def save(self, job: Job) -> bool:
        """Keep the state at which a job is, with the room that its plan makes; whether that took a copy."""

    def recover(self, job: Job) -> None:
        """Bring the branch of a job whose decode failed back to the longest state of it that is known."""

    def hold(self, job: Job, logits: Logits, *, moves_on: bool) -> None:
        """Take what storing the end of the prompt needs, whose last logits these are, before the branch moves on."""

    def end(self, job: Job, evaluated: int) -> int:
        """A job is over that evaluated so many tokens of its prompt; the bytes of all states that are kept then."""

    def observe(self, report: Report) -> None:
        """Learn from the account of a job that is over."""


def whole_tiles(size: int, left: int, n_ubatch: int) -> int:
    """How many of the `size` tokens that could be evaluated now are, of `left` to the next pause.

    llama.cpp evaluates them in micro-batches, and one of less than a tile one by one (`planner.policies.tiles`). So the
    last one before the pause, if it would be so short, gets a tile of the one before.
    """
    if n_ubatch < 2 * TILE:
        return size
    short = left - size if size < left else size % n_ubatch
    if not 0 < short < TILE or size < 2 * TILE:
        return size
    return size - TILE if size < left else size - short - TILE


@final
class Job:
    """Moves one branch of a tree along a plan, and then along an answer.

    Evaluate what `next_stretch` gives, say so with `evaluated`, and when it gives None choose a token and hand it to
    `generated`. Whatever happens, `finish` ends the job. `number`: the prompt's in the history. `clock` is the
    request's; saves are counted here, decodes by whoever makes them. `loaded`: where a state from the store gave the
    beginning, `held`: what is needed to put the prompt's end there.
    """

    def __init__(
        self,
        tree: Keeper,
        number: int,
        prompt: Prompt,
        plan: Plan,
        branch: Branch,
        reuse: Reuse,
        room: int,
        clock: Clock,
        loaded: Loaded | None = None,
        refused: Refused | None = None,
    ) -> None:
        self.number = number
        self.prompt = prompt
        self.plan = plan
        self.branch = branch
        self.clock = clock
        self.loaded = loaded
        self.held: Held | None = None
        self._refused = refused
        self._tree = tree
        self._reuse = reuse
        self._ends = {step.end: step for step in plan.steps if step.begin < step.end}
        self._known = np.zeros(room, dtype=np.int32)
        self._known[: prompt.tokens.size] = prompt.tokens
        self._length = prompt.tokens.size
        self._evaluated = self._breaks = self._saves = 0
        self._reached = branch.length

    @property
    def known(self) -> Tokens:
        """The prompt and the tokens generated so far; a view."""
        return self._known[: self._length]

    @property
    def full(self) -> bool:
        """Whether the context has no cell left for one more token."""
        return self._length == self.branch.context.n_ctx

    @property
    def owed(self) -> int:
        """Cells that were promised to it and that it does not hold yet."""
        return self._known.size - self.branch.length

    @property
    def in_prompt(self) -> bool:
        """Whether some of the prompt is not in the memory."""
        return self.branch.length < self.prompt.tokens.size

    @property
    def prompt_evaluated(self) -> int:
        """Tokens of the prompt that were evaluated so far."""
        return self._evaluated

    def next_stretch(self, limit: int) -> Stretch | MediaStretch | None:
        """The next tokens to evaluate, at most `limit`, not past the next step's end; None when all are evaluated.

        Media are a stretch of their own, however many tokens they are. Logits are asked for after the last token that
        is known.
        """
        begin, sequence = self.branch.length, self.branch.sequence
        if begin == self._length:
            return None
        position, chunk = self.branch.position(begin), self.prompt.media_from(begin)
        if chunk is not None and chunk.begin == begin:
            return MediaStretch(self._known[begin : chunk.end], position, sequence, chunk)
        media = [] if chunk is None else [chunk.begin]
        left = min([self._length, *media, *(end for end in self._ends if end > begin)]) - begin
        end = begin + whole_tiles(min(limit, left), left, self.branch.context.n_ubatch)
        return Stretch(self._known[begin:end], position, sequence, logits=end == self._length)

    def evaluated(self, stretch: Stretch | MediaStretch) -> None:
        """A decode that held `stretch` is done: the branch has moved, and what the plan says there happens now."""
        begin, n = self.branch.length, self.prompt.tokens.size
        n_pos = stretch.chunk.n_pos if isinstance(stretch, MediaStretch) else None
        self.branch.append(stretch.tokens, n_pos)
        end = self.branch.length
        self._evaluated += min(end, n) - min(begin, n)
        self._reached = max(self._reached, min(end, n))
        step = self._ends.get(end)
        if step is not None:
            self._breaks += end < n
            if step.save:
                self.save()

    def save(self) -> None:
        """Keep the state of this moment, with the room that the plan makes for it."""
        with self.clock.phase("save"):
            self._saves += self._tree.save(self)

    def prompt_ended(self, logits: Logits, *, moves_on: bool) -> None:
        """The prompt has been evaluated, and `logits` follow it: its end may go to the store when the job is over.

        The branch is there; `moves_on`: it will not be when the job ends.
        """
        with self.clock.phase("save"):
            self._tree.hold(self, logits, moves_on=moves_on)

    def generated(self, token: int) -> None:
        """The answer goes on with `token`, which is to be evaluated next."""
        self._known[self._length] = token
        self._length += 1

    def abandon(self) -> None:
        """A decode with its tokens failed or was interrupted: back to the longest state of them that is known."""
        self.branch.settled = False
        with self.clock.phase("restore"):
            self._tree.recover(self)

    def finish(self, *, cancelled: bool) -> Report:
        """The end of the request. With `cancelled` the state is kept where the evaluation of the prompt stopped."""
        if cancelled and self.in_prompt and self.branch.length:
            self.save()
        kept = self._tree.end(self, self._reached)
        report = Report(
            prompt_tokens=self.prompt.tokens.size,
            restored=self._restored(),
            evaluated=self._evaluated,
            reused=self._reuse.start,
            ideal=self._reuse.ideal,
            excess=self._reuse.explain(self._evaluated, self.prompt.where(self._reuse.shared.prompted)),
            breaks=self._breaks,
            saves=self._saves,
            bytes=kept,
            seconds=self.clock.seconds(),
            refused=self._refused,
        )
        self._tree.observe(report)
        return report

    def _restored(self) -> Restored | None:
        restore = self.plan.restore
        if restore is None or not restore.offset:
            return None
        source: Source = "ram" if restore.source == "checkpoint" else "live"
        return Restored(restore.offset, self.loaded.source if self.loaded else source)
