from __future__ import annotations

from typing import Any

import pytest

from planner import Budget, PlanRequest
from planner.simulation import Session, token_session
from planner.simulation.blocks import read_session
from planner.simulation.sweep import least_in_a_tree, least_on_a_line, sweep

ROWS = [(64_000, -1, 0, 0), (65_000, 0, 1000, 0), (64_500, 1, 400, 0), (64_500, 2, 300, 0), (64_500, 3, 1007, 0)]


@pytest.fixture
def session(session_line: Any) -> Session:
    return read_session(session_line(ROWS), "here")


def bases(*counts: int, **fields: Any) -> list[PlanRequest]:
    return [PlanRequest(1, budget=Budget(count), **fields) for count in counts]


def test_each_base_is_replayed_over_all_sessions(session: Session) -> None:
    told: list[PlanRequest] = []
    both = bases(1, 8)
    results = list(sweep([session, session], both, advance=told.append))
    assert [result.base for result in results] == both
    assert [result.totals.requests for result in results] == [8, 8]
    assert told == [both[0], both[0], both[1], both[1]]


def test_a_base_does_not_learn_from_what_another_saw(session: Session) -> None:
    alone, _ = sweep([session], bases(4, 8))
    _, after = sweep([session], bases(8, 4))
    assert alone.totals == after.totals


@pytest.mark.parametrize("k", [0, 1, 2, 8])
@pytest.mark.parametrize("policy", ["adaptive", "barriers", "near-end-pair"])
def test_no_policy_evaluates_less_than_someone_who_knows_the_future(session: Session, k: int, policy: Any) -> None:
    (result,) = sweep([session], bases(k, policy=policy))
    assert result.totals.bound <= least_on_a_line([session], k) <= result.totals.evaluated


def test_with_room_for_every_return_the_bound_is_reached(session: Session) -> None:
    (result,) = sweep([session], bases(8))
    assert least_on_a_line([session], 8) == result.totals.bound


def test_a_repeated_prompt_of_tokens_evaluates_its_last(session: Session) -> None:
    repeated = token_session("s", [([1, 2, 3], ()), ([1, 2, 3], ())])
    assert least_on_a_line([repeated], 4) == 4


@pytest.mark.parametrize("k", [0, 1, 2, 8])
@pytest.mark.parametrize("main", [False, True])
def test_in_a_tree_nobody_evaluates_less_than_the_lower_bound(session_line: Any, k: int, main: bool) -> None:
    rows = [(9000, -1, 0, 0)]
    for i in range(1, 30):
        best = max(0, i - 1 - (i % 7 == 0) * 4)
        rows.append((rows[best][0] + 700, best, rows[best][0] // 64 - (i % 5 == 0) * 40, int(i % 9 == 0)))
    session = read_session(session_line(rows), "here")
    (result,) = sweep([session], bases(k), "tree", main=main)
    lower, upper = least_in_a_tree([session], k, main=main)
    assert result.totals.bound <= lower <= upper
    assert lower <= result.totals.evaluated


def test_in_a_tree_with_room_for_every_return_the_bound_is_reached(session: Session) -> None:
    (result,) = sweep([session], bases(8), "tree")
    assert least_in_a_tree([session], 8) == (result.totals.bound, result.totals.bound)
    repeated = token_session("s", [([1, 2, 3], ()), ([1, 2, 3], ())])
    assert least_in_a_tree([repeated], 4) == (4, 4)
