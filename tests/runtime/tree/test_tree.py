"""Several conversations in one memory: what is kept, what is copied, and what goes when room runs out."""

from __future__ import annotations

import numpy as np
import pytest

from planner import Budget, Candidate
from runtime.errors import ContextFull
from runtime.llama import Context, ContextOptions
from runtime.memory import probe
from runtime.prompt import Prompt
from runtime.report import Clock
from runtime.tree.tree import Tree


@pytest.fixture
def tree(context):
    """Makes a tree on the tiny model of a kind."""

    def make(kind="hybrid", *, checkpoints=8, bytes=None, n_ctx=2048, n_seq_max=10, policy="adaptive"):
        options = ContextOptions(n_ctx, 256, 128, n_threads=1, exact=True, n_seq_max=n_seq_max)
        made = context(kind, options)
        return Tree(made, probe(made), b"", policy=policy, budget=Budget(checkpoints, bytes))

    return make


def begin(tree, prompt, max_tokens=1, system=None):
    """Begin a prompt whose first `system` tokens are worth a state."""
    candidates = () if system is None else (Candidate(system, "system_end"),)
    return tree.begin(Prompt(prompt, candidates), max_tokens=max_tokens, clock=Clock())


def step(tree, job, limit=128):
    """Evaluate one stretch; whether there was one."""
    stretch = job.next_stretch(limit)
    if stretch is not None:
        tree.context.decode(stretch)
        job.evaluated(stretch)
        tree.check_integrity()
    return stretch is not None


def run(tree, prompt, *, system=None, cancelled_after=None):
    """Evaluate a prompt, or some stretches of it; its report."""
    job = begin(tree, prompt, system=system)
    tree.check_integrity()
    left = cancelled_after
    while left != 0 and step(tree, job):
        left = None if left is None else left - 1
    report = job.finish(cancelled=left == 0)
    tree.check_integrity()
    return report


def joined(*parts):
    return np.concatenate(parts)


def test_a_branch_that_something_needs_is_left_as_it_is_and_a_copy_goes_on(tree, tokens, kind):
    made, trunk = tree(kind), tokens(1, 400)
    run(made, joined(trunk, tokens(2, 200)), system=400)
    before = made.pool.cells()
    report = run(made, joined(trunk, tokens(3, 100)), system=400)
    assert report.reused == 400
    assert run(made, joined(trunk, tokens(2, 200), tokens(4, 50))).evaluated <= 60
    if kind != "recurrent":
        assert made.pool.cells() <= before + 100 + 60 + 10


def test_a_prompt_that_goes_on_where_the_last_one_ended_takes_no_copy(tree, tokens, kind):
    made, prompt = tree(kind), tokens(1, 600)
    for length in (200, 400, 600):
        report = run(made, prompt[:length])
        assert report.evaluated == 200
        assert len(made.pool) == 1


def test_a_branch_without_a_kept_state_is_dropped_when_it_is_not_the_tip_any_more(tree, tokens):
    made = tree(checkpoints=0)
    run(made, tokens(1, 300))
    run(made, tokens(2, 300))
    (branch,) = made.pool
    assert branch is made.pool.tip
    assert made.pool.cells() == 300


def test_a_dense_memory_keeps_every_branch_but_those_that_are_the_beginning_of_another(tree, tokens):
    made, trunk = tree("dense"), tokens(1, 300)
    run(made, joined(trunk, tokens(2, 50)))
    run(made, joined(trunk, tokens(3, 50)))
    run(made, tokens(4, 50))
    assert len(made.pool) == 3
    run(made, joined(trunk, tokens(3, 50), tokens(5, 50)))
    assert len(made.pool) == 3
    assert made.pool.cells() == 300 + 50 + 50 + 50 + 50


def test_when_cells_run_out_what_is_worth_least_goes_and_the_report_says_so(tree, tokens, kind):
    made = tree(kind, n_ctx=1024)
    first = tokens(1, 500)
    run(made, first)
    for seed in range(2, 6):
        run(made, tokens(seed, 400))
        assert made.pool.cells() <= 1024
    report = run(made, first)
    if kind == "recurrent":
        assert report.evaluated < 50
    else:
        assert report.evaluated == 500
        assert {excess.reason for excess in report.excess} == {"evicted"}


def test_tokens_past_the_last_state_go_first(tree, tokens):
    made = tree(n_ctx=1024, checkpoints=1)
    run(made, tokens(1, 500))
    (state,) = made.store.states
    run(made, tokens(2, 300), cancelled_after=1)
    (state,) = made.store.states
    held = [branch.length for branch in made.pool]
    assert max(held) == 128
    assert state.offset == 128


def test_a_branch_is_cut_back_to_its_last_state_before_that_is_given_up(tree, tokens):
    made = tree(n_ctx=1024, checkpoints=2)
    prompt = tokens(1, 500)
    job = made.begin(Prompt(prompt, (Candidate(300, "system_end"),)), max_tokens=100, clock=Clock())
    while step(made, job):
        pass
    for token in range(600, 690):
        job.generated(token)
        step(made, job)
    job.finish(cancelled=False)
    (branch,) = made.pool
    last = max(state.offset for state in made.store.states)
    assert (branch.length, last < 590) == (590, True)
    run(made, tokens(2, 1024 - last - 20))
    assert branch.length == last
    assert last in {state.offset for state in made.store.states}
    assert run(made, joined(prompt, tokens(3, 10))).reused == last


def test_a_dense_branch_gives_up_no_more_of_its_end_than_is_needed(tree, tokens):
    made = tree("dense", n_ctx=1024)
    first = tokens(1, 600)
    run(made, first)
    run(made, tokens(2, 500))
    assert made.pool.cells() == 1024
    report = run(made, first)
    assert report.reused == 524
    assert [(excess.tokens, excess.reason) for excess in report.excess] == [(75, "evicted")]


def test_when_sequences_run_out_the_branch_worth_least_goes(tree, tokens, kind):
    made = tree(kind, n_seq_max=2)
    for seed in range(1, 5):
        run(made, tokens(seed, 200))
        assert len(made.pool) <= 2
    report = run(made, tokens(1, 200))
    if kind == "recurrent":
        assert report.evaluated < 50
    else:
        assert [excess.reason for excess in report.excess] == ["evicted"]


def test_with_a_single_sequence_the_tree_is_a_line(tree, tokens, kind):
    made, trunk = tree(kind, n_seq_max=1), tokens(1, 400)
    run(made, joined(trunk, tokens(2, 200)), system=400)
    for seed in (3, 2):
        report = run(made, joined(trunk, tokens(seed, 200)), system=400)
        assert report.reused == 400 or (kind == "recurrent" and report.reused == 596)
        assert len(made.pool) == 1


def test_a_prompt_as_long_as_the_context_finds_room(tree, tokens, kind):
    made = tree(kind, n_ctx=1024)
    for seed in range(1, 4):
        run(made, tokens(seed, 300))
    assert run(made, tokens(9, 1024)).evaluated == 1024
    with pytest.raises(ContextFull, match="the prompt has 1025 tokens, the context holds 1024"):
        begin(made, tokens(9, 1025))


def test_two_requests_at_once_share_what_they_have_in_common_and_end_in_any_order(tree, tokens, kind):
    made, trunk = tree(kind), tokens(1, 300)
    run(made, trunk)
    one, two = begin(made, joined(trunk, tokens(2, 300))), begin(made, joined(trunk, tokens(3, 200)))
    made.check_integrity()
    for _ in range(2):
        step(made, one)
        step(made, two)
    while step(made, two):
        pass
    assert two.finish(cancelled=False).evaluated <= 205
    while step(made, one):
        pass
    one.finish(cancelled=False)
    made.check_integrity()
    assert made.pool.tip is one.branch
    assert run(made, joined(trunk, tokens(3, 200), tokens(4, 20))).evaluated <= 30


def test_a_request_waits_while_others_hold_the_room(tree, tokens, kind):
    made = tree(kind, n_ctx=1024, n_seq_max=3)
    one = begin(made, tokens(1, 600), max_tokens=100)
    if kind != "recurrent":
        assert begin(made, tokens(2, 400)) is None
        assert made.history.latest == 0
    two = begin(made, tokens(2, 300))
    step(made, two)
    if kind == "recurrent":
        begin(made, tokens(3, 400))
    assert begin(made, tokens(4, 100)) is None
    one.finish(cancelled=True)
    three = begin(made, tokens(5, 400))
    while step(made, three):
        pass
    made.check_integrity()


def test_room_for_the_whole_answer_is_kept(tree, tokens):
    made = tree("hybrid", n_ctx=1024)
    run(made, tokens(1, 400))
    job = begin(made, tokens(2, 500), max_tokens=301)
    while step(made, job):
        pass
    assert job.owed == 300
    assert made.pool.cells() + 300 <= 1024


def test_three_conversations_at_once_keep_a_budget_in_bytes_at_every_moment(tree, tokens, kind):
    limit = 400_000
    made = tree(kind, checkpoints=None, bytes=limit, n_ctx=4096)
    prompts = [tokens(seed, 900) for seed in (1, 2, 3)]
    saves = 0
    for length in (300, 600, 900):
        jobs = [begin(made, prompt[:length]) for prompt in prompts]
        while sum(step(made, job) for job in jobs):
            assert made.store.bytes <= limit
        for job in jobs:
            saves += job.finish(cancelled=False).saves
            made.check_integrity()
    assert saves or kind == "dense"


def test_a_request_in_evaluation_keeps_its_way_back(tree, tokens):
    made = tree(checkpoints=2)
    one = begin(made, tokens(1, 600), system=200)
    for _ in range(3):
        step(made, one)
    back = max(state.offset for state in made.store.states)
    for seed in (2, 3):
        run(made, tokens(seed, 400))
    one.abandon()
    assert one.branch.length == back
    made.check_integrity()


def test_relieving_a_full_memory_leaves_only_what_is_in_evaluation(tree, tokens, kind):
    made = tree(kind)
    run(made, tokens(1, 300))
    job = begin(made, joined(tokens(1, 300), tokens(2, 100)))
    run(made, tokens(3, 300))
    assert made.relieve()
    made.check_integrity()
    assert list(made.pool) == [job.branch]
    assert not made.relieve()


def test_nothing_is_left_after_a_reset(tree, tokens, kind):
    made = tree(kind)
    run(made, tokens(1, 300))
    job = begin(made, tokens(2, 100))
    with pytest.raises(ValueError, match="requests are in evaluation"):
        made.reset()
    job.finish(cancelled=True)
    made.reset()
    made.check_integrity()
    assert (len(made.pool), len(made.store), made.history.latest) == (0, 0, -1)
    assert run(made, tokens(1, 300)).ideal == 300


def test_a_state_without_its_cells_does_not_pass_the_integrity_check(tree, tokens):
    made = tree()
    run(made, tokens(1, 300))
    made.pool.drop(made.pool.tip)
    with pytest.raises(AssertionError, match="the cells of a state are gone"):
        made.check_integrity()


@pytest.mark.parametrize("kind", ["hybrid", "dense"])
def test_prompts_that_are_long_past_are_forgotten_and_what_is_kept_is_still_used(tree, tokens, kind):
    made = tree(kind, checkpoints=8)
    made.history.most_tokens = 4_000
    system = tokens(0, 300)
    run(made, system, system=300)
    for number in range(1, 40):
        assert run(made, joined(system, tokens(number, 200)), system=300).evaluated <= 210
        assert made.history.tokens <= 4_000
    assert made.history.latest == 39
    assert len(made.history.numbers) <= 20
    assert made.store.states.lost(39).keys() <= {300, 490, 495, 500}


@pytest.mark.parametrize("kind", ["swa"])
def test_windows_find_cells_in_a_small_memory(tree, tokens, kind, monkeypatch):
    made = tree(kind, checkpoints=32, n_ctx=512, n_seq_max=9)
    refused = []
    load = Context.load_state
    monkeypatch.setattr(Context, "load_state", lambda *given, **named: load(*given, **named) or refused.append(given))
    system, random = tokens(0, 90), np.random.default_rng(1)
    prompts = [system]
    for number in range(1, 60):
        old = prompts[random.integers(len(prompts))]
        prompts.append(joined(old[: random.integers(90, 200)], tokens(number, random.integers(5, 60))))
        jobs = [job for prompt in prompts[-3:] if (job := begin(made, prompt, system=90)) is not None]
        while sum(step(made, job, max(1, made.room.for_decode // len(jobs))) for job in jobs):
            assert made.pool.window_room() >= 0
        for job in jobs:
            job.finish(cancelled=False)
        made.check_integrity()
    assert not refused
