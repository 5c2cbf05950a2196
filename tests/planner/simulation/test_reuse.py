"""Requests that break prompt caches, one session after the other on a memory that keeps branches."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from planner.simulation import Session
from spanparse.cli.traces import Dialogue, sessions_of
from spanparse.sources import load_source
from spanparse.tokens import HuggingFaceTokenizer

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = ROOT.parent / "shared" / "tools" / "scenarios.py"


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reuse", ROOT / "bench" / "reuse.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REUSE: Any = bench()


@pytest.fixture(scope="module")
def sessions() -> list[Session]:
    if not SCENARIOS.exists():
        pytest.skip(f"no {SCENARIOS.name} here")
    vocabulary = pytest.importorskip("runtime.tiny.vocabulary")
    backend = HuggingFaceTokenizer(vocabulary.hf_tokenizer(), name="tiny")
    played = [Dialogue(str(seed), [r for _, r in REUSE.requests(SCENARIOS, seed)]) for seed in REUSE.SEEDS]
    return sessions_of(played, load_source("chatml", tools=True), backend, lambda _: None)


@pytest.mark.parametrize(("checkpoints", "most"), [(8, 1.05), (32, 1.02)])
def test_a_budget_comes_this_near_the_ideal(sessions: list[Session], checkpoints: int, most: float) -> None:
    assert 1.0 <= REUSE.simulated(sessions, "adaptive", checkpoints)["ratio"] <= most


@pytest.mark.parametrize("checkpoints", [1, 8])
def test_who_knew_the_future_would_be_between_the_ideal_and_any_policy(
    sessions: list[Session], checkpoints: int
) -> None:
    ours = REUSE.simulated(sessions, "adaptive", checkpoints)
    best = REUSE.foreseen(sessions, checkpoints, ours["ideal"])
    assert best["ideal"] <= best["least"] <= best["evaluated"] < ours["evaluated"]
