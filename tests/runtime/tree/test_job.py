"""Plans are executed to the letter, and what cannot be is given up cleanly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import Budget, Plan, Planner, Step
from planner.outcome import Eviction, Restore
from planner.policies.tiles import TILE
from runtime.attachment import Attachment, MediaChunk, MediaStretch
from runtime.llama import ContextOptions, Stretch
from runtime.memory import probe
from runtime.prompt import Prompt
from runtime.report import Clock
from runtime.tree.job import whole_tiles
from runtime.tree.tree import Tree
from spanparse.media import MediaPart

OPTIONS = ContextOptions(n_ctx=2048, n_batch=256, n_ubatch=128, n_threads=1, exact=True, n_seq_max=4)


@pytest.fixture
def tree(context):
    made = context("hybrid", OPTIONS)
    return Tree(made, probe(made), b"", policy="adaptive", budget=Budget(checkpoints=2))


@pytest.fixture
def plans(monkeypatch):
    """Plans to be handed out in their order."""
    given = []
    monkeypatch.setattr(Planner, "plan", lambda self, request, **_: given.pop(0))
    return given


def planned(*steps, restore=None, evict=()):
    """A plan of (end, save) steps from where it restores."""
    begin = restore.offset if restore else 0
    made = []
    for end, save in steps:
        made.append(Step(begin, end, save, "custom", ""))
        begin = end
    kept = tuple(step.end for step in made if step.save)
    return Plan("adaptive", "hybrid", begin, restore, tuple(made), evict, kept, 0.0, 0.0)


def begin(tree, prompt):
    return tree.begin(Prompt(prompt), max_tokens=1, clock=Clock())


def step(tree, job, limit=256):
    """Evaluate one stretch; whether there was one."""
    stretch = job.next_stretch(limit)
    if stretch is not None:
        tree.context.decode(stretch)
        job.evaluated(stretch)
    return stretch is not None


def run(tree, prompt):
    job = begin(tree, prompt)
    while step(tree, job):
        tree.check_integrity()
    return job.finish(cancelled=False)


def offsets(tree):
    return [kept.offset for kept in tree.store]


def test_media_are_a_stretch_of_their_own_wherever_steps_and_limits_end(tree, tokens, plans):
    plans += [planned((300, False))]
    prompt = tokens(1, 300)
    prompt[100:180] = -7
    chunk = MediaChunk(100, 180, 13, 0, Attachment(None, MediaPart(0, 0, {}), None))
    job = tree.begin(Prompt(prompt, media=(chunk,)), max_tokens=1, clock=Clock())
    found = []
    while (stretch := job.next_stretch(64)) is not None:
        media = isinstance(stretch, MediaStretch)
        found.append((media, stretch.tokens.size, stretch.position, stretch.logits))
        # No projector here: text stands for the image.
        at = Stretch(tokens(2, 13), stretch.position, stretch.sequence) if media else stretch
        tree.context.decode(at)
        job.evaluated(stretch)
    assert found == [
        (False, 64, 0, False),
        (False, 36, 64, False),
        (True, 80, 100, False),
        (False, 64, 113, False),
        (False, 56, 177, True),
    ]


def test_each_step_ends_a_stretch_and_only_the_last_token_asks_for_logits(tree, tokens, plans):
    plans += [planned((100, True), (450, False), (600, True))]
    job, stretches = begin(tree, tokens(1, 600)), []
    while (stretch := job.next_stretch(256)) is not None:
        stretches.append((stretch.position, stretch.position + stretch.tokens.size, stretch.logits))
        tree.context.decode(stretch)
        job.evaluated(stretch)
    assert stretches == [(0, 100, False), (100, 356, False), (356, 450, False), (450, 514, False), (514, 600, True)]
    assert offsets(tree) == [100, 600]
    report = job.finish(cancelled=False)
    assert (report.evaluated, report.breaks, report.saves) == (600, 2, 2)


def test_the_room_for_a_save_is_made_right_before_it(tree, tokens, plans):
    prompt = tokens(1, 600)
    evict = (Eviction(100, "", 400, "0:100"), Eviction(200, "", 600, "0:200"))
    plans += [
        planned((100, True), (200, True), (300, False)),
        planned((400, True), (600, True), restore=Restore(200, "", "checkpoint", "0:200"), evict=evict),
    ]
    run(tree, prompt[:300])
    job = begin(tree, prompt)
    step(tree, job)
    assert offsets(tree) == [200, 400]
    step(tree, job)
    assert offsets(tree) == [400, 600]


def test_what_goes_whatever_is_saved_goes_first(tree, tokens, plans):
    prompt = tokens(1, 600)
    restore = Restore(200, "", "checkpoint", "0:200")
    plans += [
        planned((100, True), (200, True), (300, False)),
        planned((600, False), restore=restore, evict=(Eviction(100, "", None, "0:100"),)),
    ]
    run(tree, prompt[:300])
    begin(tree, prompt)
    assert offsets(tree) == [200]


def test_a_state_that_is_there_already_is_not_saved_again(tree, tokens, plans):
    prompt = tokens(1, 300)
    restore = Restore(100, "", "checkpoint", "0:100")
    plans += [planned((100, True), (300, True)), planned((300, True), restore=restore)]
    run(tree, prompt)
    assert (run(tree, prompt).saves, offsets(tree)) == (0, [100, 300])


def test_a_state_without_room_takes_that_of_the_state_worth_least(tree, tokens, plans):
    plans += [planned((100, True), (200, True), (300, True))]
    report = run(tree, tokens(1, 300))
    assert report.saves == 3
    assert offsets(tree) == [200, 300]


def test_a_state_for_which_only_the_way_back_could_go_is_left_out(context, tokens, plans):
    made = context("hybrid", OPTIONS)
    tree = Tree(made, probe(made), b"", policy="adaptive", budget=Budget(checkpoints=1))
    plans += [planned((100, True), (300, True)), planned((300, False))]
    report = run(tree, tokens(1, 300))
    assert (report.saves, offsets(tree)) == (1, [100])
    (excess,) = run(tree, tokens(1, 300)).excess
    assert (excess.tokens, excess.reason) == (299, "budget")


def test_a_spoiled_checkpoint_is_given_up_with_what_needed_its_branch(tree, tokens, plans):
    restore = Restore(200, "", "checkpoint", "0:200")
    plans += [planned((100, True), (200, True), (300, False)), planned((300, False), restore=restore)]
    plans += [planned((300, False))]
    run(tree, tokens(1, 300))
    tree.store["0:200"].data[:] = 255
    report = run(tree, tokens(1, 300))
    assert (report.evaluated, offsets(tree)) == (300, [])
    assert report.excess[0].reason == "state-missing"


def test_after_a_failed_decode_evaluation_goes_on_from_the_last_state_that_is_known(tree, tokens, plans):
    plans += [planned((100, True), (300, True), (600, False))]
    job = begin(tree, tokens(1, 600))
    for _ in range(3):
        step(tree, job)
    assert job.branch.length == 492
    tree.context.decode(job.next_stretch(256))
    job.abandon()
    tree.check_integrity()
    assert (job.branch.length, offsets(tree)) == (300, [100, 300])
    while step(tree, job):
        tree.check_integrity()
    report = job.finish(cancelled=False)
    assert (report.evaluated, report.saves) == (792, 2)
    assert sum(excess.tokens for excess in report.excess) == 192


def test_states_without_cells_go_where_the_way_back_is_spoiled(tree, tokens, plans):
    plans += [planned((100, True), (300, True), (600, False))]
    job = begin(tree, tokens(1, 600))
    for _ in range(3):
        step(tree, job)
    tree.store["0:300"].data[:] = 255
    tree.context.decode(job.next_stretch(256))
    job.abandon()
    tree.check_integrity()
    assert (job.branch.length, offsets(tree)) == (0, [])


def test_after_a_failed_decode_the_answer_so_far_is_evaluated_again(tree, tokens, plans):
    plans += [planned((300, True))]
    job = tree.begin(Prompt(tokens(1, 300)), max_tokens=4, clock=Clock())
    while step(tree, job):
        pass
    for token in (600, 700, 800):
        job.generated(token)
        stretch = job.next_stretch(1)
        assert (stretch.tokens.tolist(), stretch.logits) == ([token], True)
        tree.context.decode(stretch)
        job.evaluated(stretch)
    job.abandon()
    assert (job.branch.length, job.next_stretch(9).tokens.tolist()) == (300, [600, 700, 800])
    assert np.array_equal(job.known, [*tokens(1, 300), 600, 700, 800])
    assert job.finish(cancelled=True).evaluated == 300


def test_without_a_known_state_evaluation_starts_from_nothing(tree, tokens, plans):
    plans += [planned((300, False))]
    job = begin(tree, tokens(1, 300))
    tree.context.decode(job.next_stretch(256))
    job.abandon()
    assert job.branch.length == 0
    tree.check_integrity()


def test_a_cut_off_prefill_is_saved_where_it_stopped(tree, tokens, plans):
    plans += [planned((600, False)), planned((200, False))]
    job = begin(tree, tokens(1, 600))
    step(tree, job)
    report = job.finish(cancelled=True)
    assert (report.evaluated, report.saves, offsets(tree)) == (256, 1, [256])
    run(tree, tokens(2, 200))
    assert tree.store.states.seen_from(0, branches=False).keys() == {"0:256"}


@given(st.integers(1, 10_000), st.sampled_from([128, 256, 512]), st.sampled_from([1, 4]))
def test_no_micro_batch_is_shorter_than_a_tile_but_where_there_is_nothing_else(left, n_ubatch, batches):
    micro, total = [], left
    while left:
        size = whole_tiles(min(left, n_ubatch * batches), left, n_ubatch)
        assert 0 < size <= min(left, n_ubatch * batches)
        left -= size
        micro += [n_ubatch] * (size // n_ubatch) + [size % n_ubatch] * (size % n_ubatch > 0)
    assert sum(micro) == total
    assert min(micro) >= min(TILE, total)
    assert len(micro) <= -(-total // n_ubatch) + (n_ubatch == 2 * TILE)


def test_micro_batches_of_less_than_two_tiles_stay_as_they_are():
    assert [whole_tiles(size, 1000, 64) for size in (64, 999, 1000)] == [64, 999, 1000]
