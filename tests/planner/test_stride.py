from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner import Budget, Candidate, Costs, Existing, Plan, PlanRequest, plan
from planner.stride import fill, stride_of


def cut_short(made: Plan, request: PlanRequest, stored: set[int]) -> tuple[float, bool]:
    """Execute a plan until the client gives up: changes `stored`, gives the seconds whose work is kept, and whether it
    was done."""
    costs = request.costs
    clock = costs.per_restore if made.restore else 0.0
    start = kept = clock
    assert request.timeout is not None
    pending = list(made.evict)
    for step in made.steps:
        clock += (step.end - step.begin) * costs.seconds_per_token
        if clock > request.timeout:
            return kept - start, False
        clock += costs.per_break * (step.end < made.prompt_tokens) + costs.per_save * step.save
        if step.save and clock <= request.timeout:
            while pending and pending[0].before in (None, step.end):
                stored.remove(pending.pop(0).offset)
            stored.add(step.end)
            kept = clock
            assert request.budget.checkpoints is None or len(stored) <= request.budget.checkpoints
    return kept - start, True


def retried(request: PlanRequest, most: int = 1000) -> tuple[int, list[float]]:
    """How many identical tries it takes, on a memory that forgets its live state with each; and what each kept."""
    stored: set[int] = set()
    gains: list[float] = []
    for tries in range(1, most + 1):
        existing = tuple(Existing(offset, age=1) for offset in sorted(stored))
        again = replace(request, existing=existing, common_prefix=request.prompt_tokens if tries > 1 else 0)
        gain, done = cut_short(plan(again), again, stored)
        if done:
            return tries, gains
        gains.append(gain)
    raise AssertionError(f"not done after {most} tries")


COSTS = st.builds(
    Costs,
    st.sampled_from([0.0002, 0.002, 0.05]),
    st.sampled_from([0.0, 0.01, 10.0]),
    st.sampled_from([0.0, 0.002, 0.5]),
    st.sampled_from([0.0, 0.005, 0.5]),
)


@settings(max_examples=150)
@given(st.integers(1, 200_000), COSTS, st.sampled_from([3.0, 30.0, 90.0, 600.0]), st.integers(1, 8), st.booleans())
def test_identical_tries_each_keep_about_half_and_come_to_an_end(
    length: int, costs: Costs, timeout: float, k: int, marked: bool
) -> None:
    candidates = (Candidate(max(1, length // 9), "system_end"), Candidate(length, "generation_prompt"))
    request = PlanRequest(
        length, candidates if marked else (), budget=Budget(k), costs=costs, timeout=timeout, n_ubatch=64
    )
    # One place of the budget must be left for what is on the way.
    assume(stride_of(request) is not None)
    assume(length * costs.seconds_per_token < 20 * timeout)
    tries, gains = retried(request)
    half = (timeout - costs.per_restore) / 2
    # The saves that the plan makes for their own sake, at most k of them, may stand right before the cut.
    own = k * (costs.per_break + costs.per_save)
    assert all(gain >= half - own - 1e-6 for gain in gains)
    assert tries <= 1 + ceil(sum(gains) / max(half - own, 1e-9)) if own < half else tries < 1000


@pytest.mark.parametrize("cut", [0.3, 0.55, 0.9])
def test_s09_a_giant_message_that_is_cancelled_halfway_goes_on_where_it_was(cut: float) -> None:
    request = PlanRequest(79_000, (Candidate(78_996, "generation_prompt"),), timeout=90.0)
    made = plan(request)
    stride = stride_of(request)
    assert stride is not None
    reached = [offset for offset in made.saves if offset <= cut * 79_000]
    assert cut * 79_000 - max(reached) <= stride
    assert max(reached) >= (cut - 0.05) * 79_000


def test_s09_a_cancelled_try_and_one_more_are_enough() -> None:
    seconds = 79_000 * Costs().seconds_per_token
    tries, _ = retried(PlanRequest(79_000, timeout=0.7 * seconds))
    assert tries == 2


def test_s10_a_prompt_that_takes_longer_than_the_gateway_waits_is_done_in_a_few_tries() -> None:
    # 150,000 tokens at 500 a second are 300 s, behind a gateway that cuts after 90.
    request = PlanRequest(150_000, timeout=90.0)
    stride = stride_of(request)
    assert stride is not None
    assert stride < 90 * 500
    tries, _ = retried(request)
    assert tries == 4


def test_c1_without_states_on_the_way_the_prompt_is_never_done() -> None:
    request = PlanRequest(79_000, timeout=90.0, policy="barriers")
    with pytest.raises(AssertionError, match="not done"):
        retried(request, most=20)


def test_a_slow_pipeline_has_longer_strides() -> None:
    quick = stride_of(PlanRequest(150_000, timeout=90.0))
    slow = stride_of(PlanRequest(150_000, timeout=90.0, costs=Costs(per_break=10.0)))
    assert quick is not None
    assert slow is not None
    assert quick < slow < 45 * 500


@pytest.mark.parametrize("costs", [Costs(per_save=50.0), Costs(per_restore=91.0), Costs(seconds_per_token=100.0)])
def test_a_timeout_in_which_nothing_can_be_saved_has_no_stride(costs: Costs) -> None:
    assert stride_of(PlanRequest(1000, timeout=90.0, costs=costs)) is None
    assert plan(PlanRequest(1000, timeout=90.0, costs=costs)).steps


def test_without_a_timeout_there_is_no_stride() -> None:
    assert stride_of(PlanRequest(150_000)) is None


def test_a_state_on_the_way_goes_at_the_next_save_and_is_not_kept() -> None:
    candidates = (Candidate(9000, "system_end"), Candidate(149_996, "generation_prompt"))
    made = plan(PlanRequest(150_000, candidates, timeout=90.0, budget=Budget(2)))
    passing = [step.end for step in made.steps if step.kind == "stride" and step.end not in made.kept]
    assert passing
    assert [eviction.offset for eviction in made.evict] == passing
    assert [eviction.before for eviction in made.evict] == [made.saves[made.saves.index(x) + 1] for x in passing]


@settings(max_examples=200)
@given(
    st.integers(1, 5000),
    st.sets(st.integers(1, 5000), max_size=5),
    st.integers(1, 900),
    st.tuples(st.integers(0, 5000), st.integers(0, 400)),
)
def test_no_gap_is_longer_than_a_stride_but_over_media(
    length: int, saves: set[int], stride: int, media: tuple[int, int]
) -> None:
    begin, end = min(media[0], length), min(media[0] + media[1], length)
    request = PlanRequest(length, forbidden=((begin, end),), n_ubatch=64)
    own = sorted(offset for offset in saves if offset <= length and request.allows(offset))
    on_the_way = list(fill(request, 0, own, stride))
    assert all(request.allows(offset) for offset in on_the_way)
    ends = sorted({0, *own, *on_the_way, length})
    assert all(b - a <= stride or (a <= begin and b >= end and b - a <= end - begin) for a, b in pairwise(ends))


def test_other_policies_save_as_their_systems_do() -> None:
    values: dict[str, Any] = {"policy": "deferred"}
    assert plan(PlanRequest(150_000, timeout=90.0, **values)) == plan(PlanRequest(150_000, **values))
