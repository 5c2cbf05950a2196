from __future__ import annotations

from typing import Any

import pytest

from planner import POLICIES, Budget, PlanRequest
from planner.learning import Planner
from planner.simulation.blocks import read_session
from planner.simulation.outcome import Outcome
from planner.simulation.tree import replay_tree


def replayed(text: str, *, main: bool = False, **changes: Any) -> list[Outcome]:
    base = PlanRequest(1, **{"budget": Budget(8), **changes})
    return list(replay_tree(read_session(text, "here"), base, Planner(), main=main))


MAIN_AND_HELPER = [(64_010, -1, 0, 0), (66_010, 0, 1000, 0), (3000, 0, 8, 1), (68_010, 1, 1031, 0)]


def test_a_conversation_left_for_a_helper_goes_on_where_it_was(session_line: Any) -> None:
    last = replayed(session_line(MAIN_AND_HELPER))[3]
    assert last.shared == 66_010
    assert last.shared - last.restored < 2000


def test_policies_that_know_one_conversation_start_anew(session_line: Any) -> None:
    assert replayed(session_line(MAIN_AND_HELPER), policy="near-end-pair")[3].restored == 0


def test_the_tip_is_that_of_the_request_before_only(session_line: Any) -> None:
    outcomes = replayed(session_line(MAIN_AND_HELPER), budget=Budget(0))
    assert [o.restored for o in outcomes] == [0, 64_010, 0, 0]


def test_helpers_are_left_out_or_in(session_line: Any) -> None:
    assert [o.evaluated for o in replayed(session_line(MAIN_AND_HELPER), main=True)] == [64_010, 2000, 2000]


def test_the_same_prompt_again_evaluates_nothing_right_after_itself_only(session_line: Any) -> None:
    rows = [(64_000, -1, 0, 0), (64_000, 0, 1000, 0), (3000, 0, 8, 1), (64_000, 0, 1000, 0)]
    outcomes = replayed(session_line(rows))
    assert outcomes[1].evaluated == 0
    assert outcomes[3].evaluated > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("k", [1, 4])
def test_no_policy_keeps_more_than_the_budget(session_line: Any, policy: Any, k: int) -> None:
    rows = [(9000, -1, 0, 0)]
    for i in range(1, 40):
        best = max(0, i - 1 - (i % 7 == 0) * 4)
        tokens, parted = rows[best][0], (i % 5 == 0) * 40
        rows.append((tokens + 700, best, tokens // 64 - parted, int(i % 9 == 0)))
    outcomes = replayed(session_line(rows), policy=policy, budget=Budget(k), state_bytes=10)
    assert max(len(o.kept) for o in outcomes) <= k
    assert all(o.bytes == 10 * len(o.kept) for o in outcomes)
    assert all(o.evaluated >= o.bound for o in outcomes)
