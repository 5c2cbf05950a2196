"""Plans are executed to the letter, and what cannot be is given up cleanly."""

from __future__ import annotations

import pytest

from planner import Budget, Candidate, Existing, Plan, PlanRequest, Step, plan
from planner.outcome import Eviction, Restore
from runtime.checkpoint import CheckpointStore
from runtime.errors import DecodeError, StateError
from runtime.executor import Executor
from runtime.line import Line
from runtime.llama import Context
from runtime.memory import probe
from runtime.report import Clock


@pytest.fixture
def executor(context):
    made = context("hybrid")
    return Executor(Line(made, probe(made), b""), CheckpointStore(checkpoints=2))


def planned(*steps, restore=None, evict=()):
    """A plan of (end, save) steps from where it restores."""
    begin = restore.offset if restore else 0
    made = []
    for end, save in steps:
        made.append(Step(begin, end, save, "custom", ""))
        begin = end
    kept = tuple(step.end for step in made if step.save)
    return Plan("adaptive", "hybrid", begin, restore, tuple(made), evict, kept, 0.0, 0.0)


def run(executor, prompt, todo, cancel_after=None):
    executor.begin(todo)
    return executor.prefill(prompt, todo, cancel_after, 1, Clock())


@pytest.fixture
def batches(monkeypatch):
    """Where decodes begin and end, and whether they ask for logits."""
    seen, decode = [], Context.decode

    def watch(self, stretch):
        seen.append((stretch.position, stretch.position + stretch.tokens.size, stretch.logits))
        return decode(self, stretch)

    monkeypatch.setattr(Context, "decode", watch)
    return seen


def offsets(executor):
    return [kept.offset for kept in executor.store]


def test_each_step_ends_a_batch_and_only_the_last_token_asks_for_logits(executor, tokens, batches):
    done = run(executor, tokens(1, 600), planned((100, True), (450, False), (600, True)))
    assert batches == [(0, 100, False), (100, 356, False), (356, 450, False), (450, 600, True)]
    assert offsets(executor) == [100, 600]
    assert (done.evaluated, done.breaks, done.saves, done.cancelled) == (600, 2, 2, False)


def test_the_room_for_a_save_is_made_right_before_it(executor, tokens):
    prompt = tokens(1, 600)
    run(executor, prompt[:300], planned((100, True), (200, True), (300, False)))
    todo = planned(
        (400, True),
        (600, True),
        restore=Restore(200, "", "checkpoint"),
        evict=(Eviction(100, "", before=400), Eviction(200, "", before=600)),
    )
    cancelled = run(executor, prompt, todo, cancel_after=200)
    assert cancelled.cancelled
    assert offsets(executor) == [200, 400]
    assert executor.store.lost == {100: "evicted"}


def test_what_goes_whatever_is_saved_goes_first(executor, tokens):
    prompt = tokens(1, 600)
    run(executor, prompt[:300], planned((100, True), (200, True), (300, False)))
    run(executor, prompt, planned((600, False), restore=Restore(200, "", "checkpoint"), evict=(Eviction(100, ""),)))
    assert offsets(executor) == [200]


def test_cancelling_waits_for_the_end_of_a_micro_batch(executor, tokens, batches):
    done = run(executor, tokens(1, 600), planned((600, True)), cancel_after=129)
    assert batches == [(0, 128, False), (128, 256, False)]
    assert (done.evaluated, done.cancelled, offsets(executor)) == (256, True, [])


def test_a_state_that_is_there_already_is_not_saved_again(executor, tokens):
    prompt = tokens(1, 300)
    run(executor, prompt, planned((100, True), (300, True)))
    done = run(executor, prompt, planned((300, True), restore=Restore(100, "", "checkpoint")))
    assert (done.saves, offsets(executor)) == (0, [100, 300])


def test_a_spoiled_checkpoint_leaves_the_store_and_an_empty_line(executor, tokens):
    run(executor, tokens(1, 300), planned((100, True), (200, True), (300, False)))
    executor.store[200].data[:] = 255
    with pytest.raises(StateError, match="checkpoint at 200"):
        executor.begin(planned((300, False), restore=Restore(200, "", "checkpoint")))
    assert (executor.line.length, offsets(executor)) == (0, [])


def test_starting_from_nothing_forgets_all_checkpoints(executor, tokens):
    run(executor, tokens(1, 300), planned((100, True), (300, False)))
    executor.begin(planned((300, False)))
    assert (executor.line.length, offsets(executor)) == (0, [])


def test_recovery_goes_back_to_the_last_state_that_is_known(executor, tokens, monkeypatch):
    prompt = tokens(1, 600)
    decode = Context.decode

    def broken(self, *stretches):
        decode(self, *stretches)
        if stretches[0].position >= 300:
            raise DecodeError(2, "tokens")

    monkeypatch.setattr(Context, "decode", broken)
    with pytest.raises(DecodeError):
        run(executor, prompt, planned((100, True), (300, True), (600, False)))
    assert not executor.line.settled
    executor.recover()
    assert executor.line.settled
    assert (executor.line.length, offsets(executor)) == (300, [100, 300])


def test_recovery_without_a_known_state_starts_from_nothing(executor, tokens, monkeypatch):
    run(executor, tokens(1, 100), planned((100, False)))
    executor.line.settled = False
    executor.recover()
    assert (executor.line.length, executor.line.settled) == (0, True)


def test_the_planners_own_plans_fit(executor, tokens):
    prompt = tokens(1, 500)
    candidates = tuple(Candidate(offset, "user_start") for offset in (100, 200, 300, 400))
    request = PlanRequest(500, candidates, budget=Budget(checkpoints=2))
    run(executor, prompt, plan(request))
    again = PlanRequest(
        500,
        candidates,
        common_prefix=450,
        existing=tuple(Existing(kept.offset) for kept in executor.store),
        budget=Budget(checkpoints=2),
    )
    run(executor, prompt, plan(again))
    executor.store.check_integrity()
    assert executor.line.length == 500
