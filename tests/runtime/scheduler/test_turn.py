"""Who gets how much of a turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest

from runtime.attachment import Attachment, MediaChunk, MediaStretch
from runtime.llama import Stretch
from runtime.scheduler.turn import equally_long, next_turn
from spanparse.media import MediaPart


@dataclass(eq=False)
class Waiting:
    """A task that has this much left to evaluate, in steps that end after `step` tokens."""

    left: int
    step: int = 10**6
    prefilled: bool = False
    cancellable: bool = False
    alone: bool = False
    served: int = 0
    last_served: int = 0
    given: list[int] = field(default_factory=list)

    @property
    def job(self):
        return self

    @property
    def interruptible(self):
        return self.prefilled or self.alone or self.cancellable

    def next_stretch(self, limit):
        size = min(limit, self.left, self.step - sum(self.given) % self.step)
        return Stretch(np.zeros(size, dtype=np.int32), 0) if size else None

    def take(self, size):
        self.given.append(size)
        if not self.prefilled:
            self.left -= size
            self.served += size


def play(tasks, turns, n_batch=512, n_ubatch=128):
    """Take turns; the sizes of each as (task, tokens)."""
    found, order = [], count(1)
    for _ in range(turns):
        turn = next_turn(tasks, n_batch, n_ubatch)
        for task, stretch in turn:
            task.take(stretch.tokens.size)
            task.last_served = next(order)
        found.append([(tasks.index(task), stretch.tokens.size) for task, stretch in turn])
    return found


def test_a_prompt_that_nobody_waits_beside_takes_whole_batches():
    assert play([Waiting(1000)], 3) == [[(0, 512)], [(0, 488)], []]


def test_a_prompt_that_may_be_cancelled_takes_micro_batches():
    assert play([Waiting(300, cancellable=True)], 3) == [[(0, 128)], [(0, 128)], [(0, 44)]]


def test_beside_a_stream_a_turn_is_one_micro_batch_and_every_stream_gets_its_token():
    streams = [Waiting(1, prefilled=True) for _ in range(3)]
    assert play([Waiting(1000), *streams], 2) == [[(1, 1), (2, 1), (3, 1), (0, 125)]] * 2


def test_more_streams_than_fit_take_turns():
    streams = [Waiting(1, prefilled=True) for _ in range(5)]
    play(streams, 10, n_ubatch=2)
    assert [len(stream.given) for stream in streams] == [4] * 5


def test_prompts_share_by_tokens_and_the_first_comes_first():
    one, other = Waiting(2000), Waiting(2000)
    assert play([one, other], 4) == [[(0, 512)], [(1, 512)], [(0, 512)], [(1, 512)]]


def test_what_a_step_leaves_of_a_turn_goes_to_the_next_prompt():
    assert play([Waiting(1000, step=100), Waiting(1000)], 1) == [[(0, 100), (1, 412)]]


@pytest.mark.parametrize("steps", [(7, 1000), (1000, 7)])
def test_short_steps_take_nothing_from_anybody(steps):
    one, other = (Waiting(10**6, step=step, cancellable=True) for step in steps)
    play([one, other], 200)
    assert min(one.served, other.served) >= 199 * 7
    assert max(one.served, other.served) >= 199 * 100


def test_after_a_failure_a_request_is_evaluated_alone():
    tasks = [Waiting(1, prefilled=True), Waiting(500, alone=True), Waiting(500)]
    assert play(tasks, 1) == [[(1, 128)]]


def test_stretches_of_one_length_go_together():
    turn = next_turn([Waiting(1, prefilled=True), Waiting(30), Waiting(1, prefilled=True)], 512, 128)
    assert [[share.stretch.tokens.size for share in batch] for batch in equally_long(turn)] == [[1, 1], [30]]


class Looking(Waiting):
    """A task that has an image of 300 tokens to evaluate next, and then text."""

    def next_stretch(self, limit):
        if self.given:
            return super().next_stretch(limit)
        chunk = MediaChunk(0, 300, 300, 0, Attachment(None, MediaPart(0, 0, {}), None))
        return MediaStretch(np.zeros(300, dtype=np.int32), 0, 0, chunk)


def test_media_are_taken_whole_and_end_a_turn():
    assert play([Looking(900, served=0), Waiting(1000, served=1)], 2) == [[(0, 300)], [(1, 512)]]


def test_beside_media_every_stream_gets_its_token():
    stream = Waiting(1, prefilled=True)
    assert play([Looking(900), stream], 2) == [[(1, 1), (0, 300)], [(1, 1), (0, 127)]]
