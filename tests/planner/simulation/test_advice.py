from __future__ import annotations

from typing import Any

import pytest

from planner import PlanRequest
from planner.simulation import Session
from planner.simulation.advice import CHECKPOINTS, MIN_STEPS, advise, runs
from planner.simulation.blocks import read_session


@pytest.fixture
def session(session_line: Any) -> Session:
    """Twelve prompts that grow, each second one parting inside the tools, at the system text's end or further on."""
    rows = [(64_000, -1, 0, 0)]
    for i, parted in enumerate((6, 900, 15, 700, 6, 500, 15, 300, 6, 200, 15)):
        rows.append((64_000 + i, len(rows) - 1, parted, 0))
    return read_session(session_line(rows), "here")


def test_the_recommended_budget_is_the_smallest_that_is_enough(session: Session) -> None:
    found = advise([session], PlanRequest(1, state_bytes=10))
    seconds = {count: totals.seconds for count, totals in found.budgets}
    enough = [count for count in CHECKPOINTS if seconds[count] <= 1.005 * min(seconds.values())]
    assert found.checkpoints == enough[0]
    assert found.bytes is not None
    assert found.bytes <= 10 * found.checkpoints


def test_no_flags_of_the_grid_do_better_than_the_best(session: Session) -> None:
    found = advise([session], PlanRequest(1))
    assert found.flags[0] in CHECKPOINTS
    assert found.flags[1] in MIN_STEPS
    assert found.best.seconds <= found.default.seconds


def test_what_llama_cpp_cannot_reach_is_counted_by_where_it_lies(session: Session) -> None:
    found = advise([session], PlanRequest(1))
    limits = found.limits
    assert limits.inside_start + limits.at_start + limits.later == found.best.replays_over_4096 > 0


def test_progress_can_be_told_beforehand(session: Session) -> None:
    told: list[PlanRequest] = []
    advise([session], PlanRequest(1), advance=told.append)
    assert told == runs(PlanRequest(1))
