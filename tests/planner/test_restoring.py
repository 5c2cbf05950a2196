from __future__ import annotations

import pytest

from planner import Costs, Existing, PlanRequest
from planner.memory import MemoryKind
from planner.restoring import restore_of

STORED = (Existing(100), Existing(400), Existing(800))


def test_an_empty_memory_restores_nothing() -> None:
    assert restore_of(PlanRequest(1000)) is None


def test_a_live_state_within_the_common_prefix_is_continued() -> None:
    restore = restore_of(PlanRequest(1000, common_prefix=700, live=700, existing=STORED))
    assert restore is not None
    assert (restore.offset, restore.source) == (700, "live")


def test_a_live_state_past_the_common_prefix_is_of_no_use() -> None:
    restore = restore_of(PlanRequest(1000, common_prefix=700, live=701, existing=STORED))
    assert restore is not None
    assert (restore.offset, restore.source) == (400, "checkpoint")
    assert "300 tokens are replayed" in restore.why


def test_a_state_at_the_common_prefix_is_restored() -> None:
    restore = restore_of(PlanRequest(1000, common_prefix=800, existing=STORED))
    assert restore is not None
    assert restore.offset == 800


def test_no_state_at_or_before_the_common_prefix_means_a_cold_start() -> None:
    assert restore_of(PlanRequest(1000, common_prefix=99, live=900, existing=STORED)) is None


@pytest.mark.parametrize("live", [None, 800])
def test_the_last_token_is_always_evaluated(live: int | None) -> None:
    restore = restore_of(PlanRequest(800, common_prefix=800, live=live, existing=STORED))
    assert restore is not None
    assert restore.offset == 400


def test_a_prompt_of_one_token_starts_cold() -> None:
    assert restore_of(PlanRequest(1, common_prefix=1, live=1, memory="dense")) is None


def test_a_dense_memory_is_cut_at_the_common_prefix() -> None:
    restore = restore_of(PlanRequest(1000, common_prefix=700, live=2000, memory="dense"))
    assert restore is not None
    assert (restore.offset, restore.source) == (700, "cut")


def test_a_dense_memory_keeps_all_but_the_last_token_of_the_same_prompt() -> None:
    restore = restore_of(PlanRequest(1000, common_prefix=1000, live=1100, memory="dense"))
    assert restore is not None
    assert restore.offset == 999


@pytest.mark.parametrize(
    ("memory", "live", "source"),
    [("swa", 512, "cut"), ("swa", 513, "checkpoint"), ("swa+recurrent", 512, "checkpoint")],
)
def test_a_sliding_window_is_cut_anywhere_until_it_is_full(memory: MemoryKind, live: int, source: str) -> None:
    restore = restore_of(PlanRequest(1000, common_prefix=300, live=live, existing=STORED, memory=memory, window=512))
    assert restore is not None
    assert restore.source == source


def test_a_state_that_is_slower_to_restore_than_to_evaluate_is_left_alone() -> None:
    slow = Costs(seconds_per_token=0.001, per_restore=0.5)
    assert restore_of(PlanRequest(1000, common_prefix=450, existing=STORED, costs=slow)) is None
    restore = restore_of(PlanRequest(1000, common_prefix=800, existing=STORED, costs=slow))
    assert restore is not None
    assert restore.offset == 800
