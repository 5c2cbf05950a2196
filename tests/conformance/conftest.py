"""Real memories of every kind, as 32-bit floats without flash attention: rounding is the only noise left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from runtime.llama import Context, ContextOptions, Model
from runtime.memory import probe
from runtime.prefix import Tokens
from runtime.sampling import GREEDY, Generated, generate
from runtime.tiny import KINDS, ensure_model
from runtime.tiny.architecture import architecture
from runtime.tiny.file import write_file
from runtime.tree.branch import Branch
from runtime.tree.checkpoint import fingerprint

# One thread: several of them wait for each other actively, which is slow where cores are shared.
OPTIONS = ContextOptions(n_ctx=2048, n_batch=512, n_ubatch=128, n_threads=1, exact=True)


@dataclass(frozen=True)
class Outcome:
    """What a model makes of a prompt: the logits after it and 64 greedy tokens."""

    logits: npt.NDArray[np.float32]
    answer: Generated


class Bench:
    """A branch on a tiny model, driven token range by token range."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.kind = branch.memory.kind

    def prompt(self, seed: int, length: int) -> Tokens:
        """Ordinary tokens: ids from 500 on are no control tokens in the tiny vocabulary."""
        rng = np.random.default_rng(seed)
        return rng.integers(500, self.branch.context.model.n_vocab, length).astype(np.int32)

    def evaluate(self, prompt: Tokens, ends: list[int]) -> None:
        """Append `prompt` up to each end in turn, in as few decodes as it allows, logits after the last token."""
        for end in ends:
            while self.branch.length < end:
                stop = min(self.branch.length + self.branch.n_batch, end)
                self.branch.evaluate(prompt[self.branch.length : stop], logits=stop == prompt.size)

    def smallest_gap(self, count: int) -> float:
        """How much likelier, in logits, each of `count` greedy tokens is than the second, at worst."""
        gaps = []
        for _ in range(count):
            second, first = np.sort(self.branch.context.logits())[-2:]
            gaps.append(float(first - second))
            chosen = generate(self.branch, GREEDY, 1).ids
            if not chosen:
                break
            self.branch.evaluate(np.array(chosen, dtype=np.int32), logits=True)
        return min(gaps)

    def outcome(self) -> Outcome:
        """Read the logits and continue by 64 tokens."""
        return Outcome(self.branch.context.logits(), generate(self.branch, GREEDY, 64))


@pytest.fixture(scope="module", params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A bench for each memory kind; tests clear its branch themselves."""
    path = ensure_model(request.param)
    with Model(path) as model, Context(model, OPTIONS) as context:
        yield Bench(Branch(context, probe(context), fingerprint(path, OPTIONS)))


@pytest.fixture(scope="session")
def mrope_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dense model as Qwen3-VL's text model: attention alone, with two-dimensional positions."""
    dense = architecture("dense", 128)
    path = tmp_path_factory.mktemp("models") / "mrope.gguf"
    metadata = {**dense.metadata, "rope.dimension_sections": [6, 5, 5, 0]}
    write_file(replace(dense, name="qwen3vl", metadata=metadata), path, width=128, seed=0, template="")
    return path
