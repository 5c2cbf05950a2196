"""A conversation that goes on from a copy continues as a cold run does, and leaves the one it was copied from alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from planner import Budget, Candidate
from runtime.llama import Context, ContextOptions, Model, State
from runtime.memory import probe
from runtime.prefix import Tokens
from runtime.prompt import Prompt
from runtime.report import Clock
from runtime.tiny import KINDS, ensure_model
from runtime.tree.checkpoint import fingerprint
from runtime.tree.job import Job
from runtime.tree.tree import Tree

OPTIONS = ContextOptions(n_ctx=4096, n_batch=512, n_ubatch=128, n_threads=1, exact=True, n_seq_max=6)

# Largest absolute difference of logits. Measured on 120 prompts of each kind: a copy errs by at most 0.00006 (0.011
# where a window was restored, nothing at all on a recurrent memory), a state in which one token of the prefix was
# another one by at least 0.31.
ROUNDING = {"dense": 1e-3, "hybrid": 1e-3, "recurrent": 0.0, "swa": 0.05}
SYSTEM = 300


@pytest.fixture(scope="module", params=KINDS)
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    """A tree on each kind of memory; tests reset it themselves."""
    path = ensure_model(request.param)
    with Model(path) as model, Context(model, OPTIONS) as context:
        budget = Budget(checkpoints=4)
        yield Tree(context, probe(context), fingerprint(path, OPTIONS), policy="adaptive", budget=budget)


def text(seed: int, length: int) -> Tokens:
    return np.random.default_rng(seed).integers(500, 4000, length).astype(np.int32)


def joined(*parts: Tokens) -> Tokens:
    return np.concatenate(parts)


def begin(tree: Tree, prompt: Tokens) -> Job:
    job = tree.begin(Prompt(prompt, (Candidate(SYSTEM, "system_end"),)), max_tokens=1, clock=Clock())
    assert job is not None
    return job


def step(tree: Tree, job: Job) -> bool:
    """Evaluate one stretch; whether there was one."""
    stretch = job.next_stretch(OPTIONS.n_ubatch)
    if stretch is not None:
        tree.context.decode(stretch)
        job.evaluated(stretch)
        tree.check_integrity()
    return stretch is not None


def logits_after(tree: Tree, prompt: Tokens, reused: int | None = None) -> npt.NDArray[np.float32]:
    job = begin(tree, prompt)
    while step(tree, job):
        pass
    logits = tree.context.logits()
    report = job.finish(cancelled=False)
    tree.check_integrity()
    assert reused is None or report.reused == reused
    return logits


def cold(tree: Tree, prompt: Tokens) -> npt.NDArray[np.float32]:
    tree.reset()
    return logits_after(tree, prompt, 0)


def error(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max())


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_goes_on_as_a_cold_run_does_and_leaves_the_other_alone(tree: Tree, seed: int) -> None:
    tolerance = ROUNDING[tree.memory.kind]
    trunk = text(seed, SYSTEM)
    one, other = joined(trunk, text(seed + 10, 90)), joined(trunk, text(seed + 20, 150))
    back = joined(one, text(seed + 30, 70))
    expected = [cold(tree, prompt) for prompt in (other, back)]
    tree.reset()
    logits_after(tree, one, 0)
    went = logits_after(tree, other, SYSTEM)
    came_back = logits_after(tree, back)
    assert error(went, expected[0]) <= tolerance
    assert error(came_back, expected[1]) <= tolerance


def system_state(tree: Tree) -> State:
    """The bytes of the one state that is kept after the trunk."""
    (data,) = (checkpoint.data for checkpoint in tree.store if checkpoint.offset == SYSTEM)
    return data


@pytest.mark.parametrize("tree", ["hybrid", "swa", "recurrent"], indirect=True)
def test_a_copy_with_the_state_of_another_prefix_is_told_from_a_cold_run(tree: Tree) -> None:
    trunk, other_trunk = text(1, SYSTEM), text(1, SYSTEM)
    other_trunk[SYSTEM // 2] += 1
    prompt = joined(trunk, text(2, 150))
    expected = cold(tree, prompt)
    cold(tree, joined(other_trunk, text(3, 50)))
    wrong = system_state(tree).copy()
    cold(tree, joined(trunk, text(4, 50)))
    system_state(tree)[:] = wrong
    assert error(logits_after(tree, prompt, SYSTEM), expected) > 5 * ROUNDING["swa"]


def test_requests_at_once_that_share_a_beginning_do_not_disturb_each_other(tree: Tree) -> None:
    trunk = text(5, SYSTEM)
    prompts = [joined(trunk, text(seed, 200)) for seed in (6, 7, 8)]
    expected = [cold(tree, prompt) for prompt in prompts]
    tree.reset()
    logits_after(tree, joined(trunk, text(9, 20)))
    jobs, found = [begin(tree, prompt) for prompt in prompts], {}
    while len(found) < len(jobs):
        for number, job in enumerate(jobs):
            if number not in found and not step(tree, job):
                continue
            if number not in found and not job.in_prompt:
                found[number] = tree.context.logits()
    for job in reversed(jobs):
        assert job.finish(cancelled=False).reused == SYSTEM
        tree.check_integrity()
    tolerance = ROUNDING[tree.memory.kind]
    assert max(error(found[number], expected[number]) for number in found) <= tolerance


@pytest.mark.parametrize("tree", ["hybrid", "recurrent"], indirect=True)
def test_where_nothing_was_copied_the_result_is_the_same_bit_for_bit(tree: Tree) -> None:
    trunk = text(5, SYSTEM)
    one, other = joined(trunk, text(6, 90)), joined(trunk, text(7, 150))
    expected = cold(tree, other)
    tree.reset()
    # The first prompt is cut off right after the state: its branch goes on itself.
    job = begin(tree, one)
    while job.branch.length < SYSTEM:
        step(tree, job)
    job.finish(cancelled=True)
    assert np.array_equal(logits_after(tree, other, SYSTEM), expected)
    assert len(tree.pool) == 1
