"""Which tokens are evaluated next, when several requests want to go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from runtime.attachment import MediaStretch
from runtime.llama import Stretch
from runtime.scheduler.task import Task


class Share(NamedTuple):
    """A request's part of a turn."""

    task: Task
    stretch: Stretch | MediaStretch


def next_turn(tasks: Sequence[Task], n_batch: int, n_ubatch: int) -> list[Share]:
    """What the tasks evaluate next, at most `n_batch` tokens in all.

    Every stream that is being decoded gets one token, those that waited longest first. What is left goes to prompts,
    first to the one served least, and of several to the one that came first. While an answer is being decoded, and for
    a request that may be cancelled, all of it is at most one micro-batch: so no stream waits longer than that takes,
    however long a prompt beside it is. Only media are evaluated as a whole, and after them nothing more.
    """
    retried = next((task for task in tasks if task.alone), None)
    chosen = tasks if retried is None else [retried]
    room = min(n_batch, n_ubatch) if any(task.interruptible for task in chosen) else n_batch
    turn = []
    for task in sorted(chosen, key=_urgency):
        stretch = task.job.next_stretch(room) if room else None
        if stretch is not None:
            turn.append(Share(task, stretch))
            room -= room if isinstance(stretch, MediaStretch) else stretch.tokens.size
    return turn


def _urgency(task: Task) -> tuple[bool, int]:
    return not task.prefilled, task.last_served if task.prefilled else task.served


def equally_long(turn: Iterable[Share]) -> list[list[Share]]:
    """A turn in batches of stretches of one length each.

    A recurrent memory splits a batch of unequal stretches into several micro-batches, which one with a sliding window
    beside it must not get in one call (see `runtime.tree.branch`).
    """
    ordered = sorted(turn, key=lambda share: share.stretch.tokens.size)
    return [list(batch) for _, batch in groupby(ordered, key=lambda share: share.stretch.tokens.size)]
