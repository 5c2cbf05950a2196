from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from planner import POLICIES, Budget, Costs, PlanRequest
from planner.learning import Planner
from planner.simulation import read_blocks
from planner.simulation.blocks import read_session
from planner.simulation.line import replay_line
from planner.simulation.outcome import Outcome, total


def replayed(text: str, *, main: bool = True, **changes: Any) -> list[Outcome]:
    base = PlanRequest(1, **{"budget": Budget(8), **changes})
    return list(replay_line(read_session(text, "here"), base, Planner(), main=main))


def test_a_prompt_that_extends_the_one_before_evaluates_what_is_new(session_line: Any) -> None:
    outcomes = replayed(session_line([(20_000, -1, 0, 0), (21_000, 0, 312, 0)]))
    assert [(o.evaluated, o.bound, o.reason) for o in outcomes] == [(20_000, 20_000, None), (1000, 1000, None)]


def test_the_same_prompt_again_evaluates_nothing_in_a_trace_of_blocks(session_line: Any) -> None:
    assert replayed(session_line([(20_000, -1, 0, 0), (20_000, 0, 312, 0)]))[1].evaluated == 0


def test_a_prompt_that_goes_back_starts_from_the_nearest_state(session_line: Any) -> None:
    first, second = replayed(session_line([(64_000, -1, 0, 0), (64_100, 0, 900, 0)]))
    assert second.restored == max(offset for offset in first.kept if offset <= 900 * 64)
    assert second.evaluated == 64_100 - second.restored
    assert second.replay == 900 * 64 - second.restored > 0
    assert second.reason == "state-missing"


def test_states_past_what_is_shared_are_lost(session_line: Any) -> None:
    outcomes = replayed(session_line([(64_000, -1, 0, 0), (1000, 0, 15, 0), (64_000, 0, 1000, 0)]))
    assert outcomes[2].restored <= 1000


def test_sub_agents_are_left_out_or_in(session_line: Any) -> None:
    text = session_line([(20_000, -1, 0, 0), (5000, 0, 10, 1), (21_000, 0, 312, 0)])
    assert [o.evaluated for o in replayed(text)] == [20_000, 1000]
    assert len(replayed(text, main=False)) == 3


def test_nothing_shared_is_said(session_line: Any) -> None:
    assert replayed(session_line([(20_000, -1, 0, 0), (5000, -1, 0, 0)]))[1].reason == "no-common-prefix"


def test_without_a_budget_that_is_the_reason(session_line: Any) -> None:
    text = session_line([(20_000, -1, 0, 0), (20_100, 0, 200, 0)])
    assert replayed(text, budget=Budget(0))[1].reason == "budget"


def test_a_state_given_up_is_the_reason_of_the_replay(session_line: Any) -> None:
    rows = [(20_000, -1, 0, 0), (40_000, 0, 312, 0), (20_100, 1, 312, 0)]
    assert replayed(session_line(rows), policy="shallow", budget=Budget(1))[2].reason == "evicted"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("k", [1, 3, 8])
def test_no_policy_keeps_more_than_the_budget(session_line: Any, policy: Any, k: int) -> None:
    rows = [(9000, -1, 0, 0)]
    for i in range(1, 30):
        rows.append((9000 + 700 * i, i - 1, (9000 + 700 * (i - 1)) // 64 - (i % 5 == 0) * 40, 0))
    outcomes = replayed(session_line(rows), policy=policy, budget=Budget(k), state_bytes=10)
    assert max(len(o.kept) for o in outcomes) <= k
    assert all(o.bytes == 10 * len(o.kept) for o in outcomes)
    assert all(o.evaluated >= o.bound for o in outcomes)


def test_totals_count_what_the_outcomes_say(session_line: Any) -> None:
    outcomes = replayed(session_line([(64_000, -1, 0, 0), (64_100, 0, 2, 0), (64_200, 1, 900, 0)]), budget=Budget(0))
    totals = total(outcomes, Costs(seconds_per_token=1.0), sized=False)
    assert (totals.requests, totals.full_resets, totals.replays_over_4096) == (2, 2, 1)
    assert totals.evaluated == totals.seconds == 64_000 + 64_100 + 64_200
    assert totals.bound == 64_000 + 64_100 - 128 + 64_200 - 900 * 64
    assert totals.replay_p99 == 900 * 64
    assert totals.bytes is None


def test_on_real_sessions_adaptive_replays_a_fraction_of_what_the_near_end_pair_does(trace: Path) -> None:
    excess: dict[str, int] = {}
    for policy in ("adaptive", "near-end-pair"):
        planner = Planner()
        sessions = itertools.islice(read_blocks(trace.read_bytes(), "trace"), 1, 40, 2)
        base = PlanRequest(1, policy=policy, budget=Budget(8))  # type: ignore[arg-type]
        totals = total((o for s in sessions for o in replay_line(s, base, planner)), Costs(), sized=False)
        excess[policy] = totals.evaluated - totals.bound
    assert excess["adaptive"] < excess["near-end-pair"] / 4
