"""A conversation goes on in another process where the last one left it, on every kind of memory."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from runtime.llama import Context, ContextOptions, Model, Stretch
from runtime.prefix import Tokens
from runtime.store import DiskTier, Entry, Store, identify
from runtime.store.record import Logits
from runtime.tiny import KINDS, ensure_model, write_model

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = ContextOptions(n_ctx=1024, n_batch=128, n_ubatch=128, n_threads=1, exact=True)
PROMPT, MORE = 400, 60
RAM = DISK = 50_000_000
# A state that is wrong moves logits by more than this, see tests/conformance/test_restore.py.
ROUNDING = 0.05


def tokens(seed: int) -> Tokens:
    """A prompt and what follows it."""
    return np.random.default_rng(seed).integers(500, 4000, PROMPT + MORE).astype(np.int32)


@dataclass(frozen=True)
class Runtime:
    """A context and a store for it."""

    context: Context
    store: Store

    def evaluate(self, ids: Tokens, begin: int = 0) -> Logits:
        """The logits after `ids`, of which those before `begin` are in the memory."""
        for at in range(begin, ids.size, OPTIONS.n_batch):
            batch = ids[at : at + OPTIONS.n_batch]
            self.context.decode(Stretch(batch, at, logits=at + batch.size == ids.size))
        return self.context.logits()

    def save(self, ids: Tokens, logits: Logits) -> None:
        size = self.context.state_size(partial=False)
        self.store.save(
            ids, size, lambda buffer: self.context.save_state(partial=False, into=buffer).size, logits=logits
        )

    def restore(self, entry: Entry) -> None:
        self.context.clear()
        assert self.context.load_state(entry.state, partial=False)
        assert self.context.position_range()[1] == entry.n_tokens - 1


def run(kind: str, directory: str, answers: str) -> None:
    """What the process before the restart does: evaluates a prompt, saves its state, and notes how it would go on."""
    path = ensure_model(kind)
    with Model(path) as model, Context(model, OPTIONS) as context, opened(path, directory) as store:
        runtime, ids = Runtime(context, store), tokens(1)
        for seed in (2, 1):
            context.clear()
            logits = runtime.evaluate(tokens(seed)[:PROMPT])
            runtime.save(tokens(seed)[:PROMPT], logits)
        cold = runtime.evaluate(ids, PROMPT)
        # The same from a full state, in which a sliding window's cells lie in another order.
        entry = store.longest(ids)
        assert entry is not None
        runtime.restore(entry)
        np.savez(answers, prompt=logits, cold=cold, whole=runtime.evaluate(ids, PROMPT))


def opened(path: Path, directory: str | Path) -> Store:
    identity = identify(path, n_ctx_seq=OPTIONS.n_ctx, exact=OPTIONS.exact)
    return Store(identity, ram_bytes=RAM, tiers=[DiskTier(directory, bytes_limit=DISK)])


class Restarted(NamedTuple):
    """A runtime that begins with the states of a process that has ended, and the logits which that computed."""

    runtime: Runtime
    kind: str
    directory: Path
    before: dict[str, Logits]


@pytest.fixture(scope="module", params=KINDS)
def restarted(request, tmp_path_factory):
    """For each kind of memory, after a process evaluated two prompts and ended."""
    directory = tmp_path_factory.mktemp("restart")
    code = "import sys; from tests.runtime.store.test_restart import run; run(*sys.argv[1:])"
    command = [sys.executable, "-c", code, request.param, directory / "states", directory / "answers.npz"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    path = ensure_model(request.param)
    with Model(path) as model, Context(model, OPTIONS) as context, opened(path, directory / "states") as store:
        yield Restarted(Runtime(context, store), request.param, directory, np.load(directory / "answers.npz"))


def test_an_identical_prompt_evaluates_nothing_and_has_its_logits(restarted):
    runtime, before = restarted.runtime, restarted.before
    entry = runtime.store.longest(tokens(1)[:PROMPT])
    assert entry.n_tokens == PROMPT
    assert np.array_equal(entry.logits, before["prompt"])


def test_a_longer_prompt_goes_on_bit_for_bit(restarted):
    runtime, before = restarted.runtime, restarted.before
    runtime.restore(runtime.store.longest(tokens(1)))
    after = runtime.evaluate(tokens(1), PROMPT)
    assert np.array_equal(after, before["whole"])
    if restarted.kind != "swa":
        assert np.array_equal(after, before["cold"])
    assert np.abs(after - before["cold"]).max() < ROUNDING


def test_the_state_of_another_prompt_shows(restarted):
    runtime, before = restarted.runtime, restarted.before
    runtime.restore(runtime.store.longest(tokens(2)))
    after = runtime.evaluate(tokens(1), PROMPT)
    assert np.abs(after - before["cold"]).max() > 5 * ROUNDING


def test_a_context_of_other_precision_is_told_why_nothing_fits(restarted):
    identity = identify(ensure_model(restarted.kind), n_ctx_seq=OPTIONS.n_ctx, exact=False)
    disk = DiskTier(restarted.directory / "states", bytes_limit=DISK)
    with Store(identity, ram_bytes=RAM, tiers=[disk]) as other:
        result = other.find(tokens(1))
    assert result.matches == ()
    assert result.refusal.reason == "saved with keys and values f32, here f16"


def test_a_model_of_other_weights_is_told_why_nothing_fits(tmp_path):
    here, there = ensure_model("recurrent"), tmp_path / "other.gguf"
    write_model("recurrent", there, seed=1)
    ids = np.arange(600, 700, dtype=np.int32)
    with Model(here) as model, Context(model, OPTIONS) as context, opened(here, tmp_path / "states") as store:
        runtime = Runtime(context, store)
        runtime.save(ids, runtime.evaluate(ids))
    with opened(there, tmp_path / "states") as store:
        result = store.find(ids)
    assert result.matches == ()
    assert result.refusal.reason.startswith("saved with tensors ")
