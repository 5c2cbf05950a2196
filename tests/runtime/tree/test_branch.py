"""A branch knows its tokens, its positions and whose cells it shares."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.errors import DecodeError, StateError
from runtime.llama import Context, ContextOptions
from runtime.memory import probe
from runtime.tree.branch import Branch
from runtime.tree.positions import Positions

OPTIONS = ContextOptions(n_ctx=1024, n_batch=256, n_ubatch=128, n_threads=1, exact=True, n_seq_max=3)


@pytest.fixture
def made(context, kind):
    return context(kind, OPTIONS)


@pytest.fixture
def branches(made):
    memory = probe(made)
    return [Branch(made, memory, b"", sequence) for sequence in range(3)]


def evaluate(branch, prompt, logits=True):
    for begin in range(branch.length, prompt.size, 128):
        end = min(begin + 128, prompt.size)
        branch.evaluate(prompt[begin:end], logits=logits and end == prompt.size)


def test_it_knows_its_tokens_and_what_it_shares_with_a_prompt(branches, tokens):
    branch, prompt = branches[1], tokens(1, 300)
    evaluate(branch, prompt)
    assert np.array_equal(branch.tokens, prompt)
    assert branch.common(np.concatenate([prompt[:200], tokens(2, 50)])) in (200, 201)
    assert branch.context.position_range(1)[1] == 299
    assert branch.context.position_range(0) == (-1, -1)


def test_media_may_take_fewer_positions_than_tokens(branches):
    branch = branches[0]
    branch.append(np.arange(10, dtype=np.int32))
    branch.append(np.full(16, -7, dtype=np.int32), n_pos=4)
    branch.append(np.arange(5, dtype=np.int32))
    branch.append(np.full(8, -9, dtype=np.int32), n_pos=2)
    assert [branch.position(offset) for offset in (0, 10, 26, 31, 39)] == [0, 10, 14, 19, 21]
    other = branches[1]
    other.follow(branch)
    assert [other.position(offset) for offset in (10, 26, 39)] == [10, 14, 21]


@pytest.mark.parametrize("kind", ["dense"])
def test_after_a_cut_positions_are_those_of_the_tokens_that_are_left(branches):
    branch = branches[0]
    branch.append(np.full(16, -7, dtype=np.int32), n_pos=4)
    branch.cut(0)
    branch.append(np.arange(5, dtype=np.int32))
    assert branch.position(5) == 5


def test_a_copy_shares_cells_and_what_each_evaluates_then_is_its_own(branches, tokens):
    one, other, _ = branches
    evaluate(one, tokens(1, 200))
    other.follow(one)
    assert other.runs == one.runs
    assert (other.covers(one), one.covers(other)) == (True, True)
    evaluate(one, np.concatenate([tokens(1, 200), tokens(2, 50)]))
    evaluate(other, np.concatenate([tokens(1, 200), tokens(3, 50)]))
    assert [(run.begin, run.end) for run in one.runs] == [(0, 250)]
    assert [(run.begin, run.end) for run in other.runs] == [(0, 200), (200, 250)]
    assert not one.covers(other)


def test_what_is_evaluated_after_going_back_is_no_longer_what_a_copy_shares(branches, tokens, kind):
    one, other, _ = branches
    prompt = tokens(1, 200)
    evaluate(one, prompt[:100])
    saved = one.save()
    evaluate(one, prompt)
    other.follow(one)
    if kind == "dense":
        one.cut(100)
    else:
        one.restore(saved)
    evaluate(one, np.concatenate([prompt[:100], tokens(2, 100)]))
    assert one.runs[0].serial == other.runs[0].serial
    assert {run.serial for run in one.runs[1:]} & {run.serial for run in other.runs} == set()


def test_going_on_after_a_copy_leaves_the_original_untouched(branches, tokens, kind):
    one, other, control = branches
    prompt, added = tokens(1, 300), tokens(2, 40)
    evaluate(one, prompt)
    other.follow(one)
    if kind == "swa":
        # Shared cells of a window may be written over by neither, so a window is restored.
        other.restore(one.save())
    evaluate(other, np.concatenate([prompt, tokens(3, 200)]))
    evaluate(one, np.concatenate([prompt, added]))
    kept = one.context.logits()
    evaluate(control, np.concatenate([prompt, added]))
    assert np.abs(kept - control.context.logits()).max() < 0.05
    # The control of this test: logits do tell the two continuations apart.
    evaluate(other, np.concatenate([other.tokens, added]))
    assert np.abs(kept - other.context.logits()).max() > 0.5


def test_a_failed_evaluation_leaves_it_unsettled(branches, tokens, monkeypatch):
    def broken(self, *stretches):
        raise DecodeError(2, "tokens")

    branch = branches[0]
    with monkeypatch.context() as patch:
        patch.setattr(Context, "decode", broken)
        with pytest.raises(DecodeError):
            branch.evaluate(tokens(1, 50), logits=False)
    assert (branch.settled, branch.length) == (False, 0)
    branch.clear()
    evaluate(branch, tokens(1, 50))
    assert branch.settled


@pytest.mark.parametrize("kind", ["recurrent"])
def test_a_recurrent_state_is_whole_and_needs_no_cells(branches, tokens):
    one, other, control = branches
    prompt = tokens(1, 200)
    evaluate(one, prompt[:150])
    saved = one.save()
    one.clear()
    other.assume(prompt[:150], Positions())
    other.restore(saved)
    evaluate(other, prompt)
    logits = other.context.logits()
    evaluate(control, prompt[:150])
    evaluate(control, prompt)
    assert np.array_equal(logits, control.context.logits())


def test_tokens_that_were_assumed_are_not_taken_for_a_state(branches, tokens):
    branch = branches[0]
    evaluate(branch, tokens(1, 100))
    saved = branch.save()
    branch.assume(tokens(2, 100), Positions())
    assert not branch.settled
    with pytest.raises(StateError, match="other tokens"):
        branch.restore(saved)
