"""Full states of a tree's branches in a store: what outlasts their cells, their sequences and the process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, final

import numpy as np

from planner import Costs
from runtime.errors import StateError
from runtime.llama import State
from runtime.prefix import Tokens
from runtime.prompt import Prompt
from runtime.rates import Rate
from runtime.report import Report, Source
from runtime.store import Match, Medium, Refusal, StateRefused, Store, TierError, TierFull
from runtime.store.ram import Slot
from runtime.store.record import Logits
from runtime.store.weights import read_weights
from runtime.tree.branch import Branch
from runtime.tree.checkpoint import Checkpoint
from runtime.tree.positions import Positions

if TYPE_CHECKING:
    from runtime.attachment import MediaChunk
    from runtime.media import Projector

_log = logging.getLogger("runtime.store")

Scratch = Callable[[], AbstractContextManager[Branch | None]]
"""Gives an empty branch, if there is room for one, that is dropped after the block."""

_ASSUMED: Final[dict[Source, float]] = {"ram": 2e-10, "disk": 1e-9, "redis": 4e-9}
"""Seconds to load a byte until it has been measured: about the figures of docs/store.md."""


@final
class Held(NamedTuple):
    """What is needed to store the state at some offset of a prompt once the branch has gone on.

    Nothing, where the memory can go back by itself. `logits`: those after it, if it is the prompt's end.
    """

    logits: Logits | None = None
    checkpoint: Checkpoint | None = None
    slot: Slot | None = None


@final
class Loaded(NamedTuple):
    """A branch in a state from the store; `logits` follow the prompt if that is all of it.

    `foreign`: another process evaluated it.
    """

    branch: Branch
    source: Source
    logits: Logits | None
    foreign: bool


@final
class Archive:
    """Moves full states between branches and a store. `projector`: what makes tokens of media, if anything does.

    What goes wrong costs the state, never a request. Like the store not for use by several threads at once.
    """

    def __init__(self, store: Store, projector: Projector | None = None) -> None:
        self.store = store
        self._mrope = projector is not None and projector.mrope
        self._reader = "" if projector is None else read_weights(projector.path).digest
        self._ours: set[str] = set()
        self._token = Rate(Costs().seconds_per_token)
        self._byte = {source: Rate(seconds) for source, seconds in _ASSUMED.items()}
        self._has_complained = False

    def observe(self, report: Report) -> None:
        """Learn from a request how long tokens take."""
        self._token.observe(report.seconds.prefill, report.evaluated)

    def find(self, tokens: Tokens, restorable: int) -> tuple[list[Match], Refusal | None]:
        """States of a prompt, of which `restorable` tokens are at hand, that save more than loading them costs.

        The longest first. The refusal is the store's.
        """
        found = self.store.find(tokens, self._media(tokens))
        return [match for match in found.matches if self._pays(match, restorable)], found.refusal

    def _pays(self, match: Match, restorable: int) -> bool:
        if match.n_tokens <= restorable:
            return False
        with suppress(StateRefused, TierError):
            seconds = self.store.size(match) * self._byte[match.source].value
            return (match.n_tokens - restorable) * self._token.value > seconds
        return False

    def load(self, match: Match, prompt: Prompt, branch: Branch) -> Loaded | None:
        """Put a state of a prompt into an empty branch; None, and the branch is empty, if it cannot be had.

        One of the whole prompt is of use only with its logits, or if the memory can be cut by a token.
        """
        tokens, length = prompt.tokens, match.n_tokens
        media = [chunk for chunk in prompt.media if chunk.end <= length]
        begin = time.perf_counter()
        try:
            entry = self.store.load(match)
            n_vocab = branch.context.model.n_vocab
            if entry.logits is not None and entry.logits.size != n_vocab:
                raise StateRefused(str(match.name), f"it has {entry.logits.size} logits, the model {n_vocab}")
            branch.load(entry.state, tokens[:length], _positions(media, mrope=self._mrope))
            if length == tokens.size and entry.logits is None:
                branch.cut(length - 1)
        except (StateRefused, TierError, StateError) as error:
            _log.info("a stored state is passed over: %s", error, extra={"tier": match.source})
            branch.clear()
            return None
        self._byte[match.source].observe(time.perf_counter() - begin, entry.state.size)
        logits = entry.logits if branch.length == tokens.size else None
        return Loaded(branch, match.source, logits, match.name.key not in self._ours)

    def hold(self, branch: Branch, logits: Logits) -> Held | None:
        """What `put_away` will need of this moment, the end of a prompt; None if it is stored or has no room."""
        if not _storable(branch.tokens) or self.has(branch.tokens, logits=True):
            return None
        whole = branch.context.state_size(branch.sequence, partial=False) + logits.nbytes
        if whole > self.store.ram_bytes:
            self._complain(whole)
            return None
        if branch.memory.cuts_anywhere:
            return Held(logits)
        size = branch.state_size
        try:
            slot = self.store.borrow(size)
        except TierFull:
            return None
        return Held(logits, branch.save(slot.buffer[:size]), slot)

    def has(self, tokens: Tokens, *, logits: bool = False) -> bool:
        """Whether the state after exactly these tokens is stored; if it is in RAM, with its `logits` if so asked."""
        return self.store.has(tokens, self._media(tokens), logits=logits)

    def put_away(self, branch: Branch, end: int, held: Held | None, scratch: Scratch) -> None:
        """Store what a branch was after its first `end` tokens, with what was `held` of that moment.

        One that has not come so far is stored as it is. One that went on is copied, and the copy taken back. What was
        held is given back.
        """
        try:
            if 0 < branch.length <= end:
                self.keep(branch, held.logits if held and branch.length == end else None)
            elif branch.length and held and not self.has(branch.tokens[:end], logits=held.logits is not None):
                with scratch() as copy, suppress(StateError):
                    if copy is not None:
                        _take_back(copy, branch, held.checkpoint, end)
                        self.keep(copy, held.logits)
        finally:
            if held is not None and held.slot is not None:
                self.store.give_back(held.slot)

    def keep(self, branch: Branch, logits: Logits | None = None) -> None:
        """Store the state that a branch is in, unless that is done."""
        tokens = branch.tokens
        if not _storable(tokens) or self.has(tokens, logits=logits is not None):
            return
        context, sequence = branch.context, branch.sequence
        size = context.state_size(sequence, partial=False)

        def write(buffer: State) -> int:
            return context.save_state(sequence, partial=False, into=buffer).size

        try:
            self.store.save(tokens, size, write, logits=logits, media=self._media(tokens))
        except TierFull:
            self._complain(size)
        else:
            self._ours.add(self.store.name(tokens, self._media(tokens)).key)

    def _media(self, tokens: Tokens) -> list[Medium]:
        """Where media stand, and what reads them; the tokens themselves say which they are."""
        edges = np.flatnonzero(np.diff(tokens < 0, prepend=False, append=False)).tolist()
        return [Medium(begin, end, self._reader) for begin, end in zip(edges[::2], edges[1::2], strict=True)]

    def check_integrity(self, held: Sequence[Held]) -> None:
        """Raise AssertionError unless the store is right, and lends what is `held` and nothing else."""
        assert self.store.loans == sum(one.slot is not None for one in held), "memory was lent and not given back"
        self.store.check_integrity()

    def _complain(self, size: int) -> None:
        if not self._has_complained:
            self._has_complained = True
            _log.warning(
                "a state of %d bytes is not stored, ram holds %d", size, self.store.ram_bytes, extra={"tier": "ram"}
            )


def _take_back(copy: Branch, source: Branch, checkpoint: Checkpoint | None, length: int) -> None:
    """Make of an empty branch what `source` was after `length` tokens. Raises `StateError`."""
    if checkpoint is None:
        copy.follow(source)
        copy.cut(length)
        return
    if not copy.memory.has_cells:
        copy.assume(checkpoint.tokens, checkpoint.positions)
    else:
        copy.follow(source)
    copy.restore(checkpoint)


def _storable(tokens: Tokens) -> bool:
    """Whether a state after these tokens may be stored: none that ends with media, whose pieces may follow on."""
    return bool(tokens.size and tokens[-1] >= 0)


def _positions(media: Sequence[MediaChunk], *, mrope: bool) -> Positions:
    """Where the tokens of a prompt with these media stand."""
    positions = Positions()
    for chunk in media:
        begin = positions.after(chunk.begin)
        flat = mrope and chunk.attachment.part.kind == "image"
        last = begin if flat else begin + chunk.n_pos - 1
        positions = positions.with_media(chunk.begin, chunk.end, chunk.n_pos, last)
    return positions
