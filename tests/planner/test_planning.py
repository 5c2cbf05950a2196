from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import (
    POLICIES,
    Budget,
    Candidate,
    Costs,
    Eviction,
    Existing,
    Plan,
    PlanRequest,
    Restore,
    Step,
    compare,
    plan,
    write_plan,
)
from planner.offsets import Kind
from planner.policies.registry import REGISTRY
from planner.policies.situation import situate

KINDS: list[Kind] = ["system_end", "user_start", "assistant_start", "tool_start", "media_end", "custom"]

SIZES: list[int | tuple[tuple[int, int], ...]] = [100, ((0, 50), (9000, 200))]


@st.composite
def requests(draw: st.DrawFn) -> PlanRequest:
    length = draw(st.integers(1, 9000))
    offsets = st.integers(1, length)
    stable = st.sampled_from([None, True, False])
    candidate = st.builds(Candidate, offsets, st.sampled_from(KINDS), stable)
    candidates = draw(st.lists(candidate, max_size=12))
    if draw(st.booleans()):
        candidates.append(Candidate(max(1, length - 4), "generation_prompt"))
    common = draw(st.integers(0, length))
    stored = draw(st.sets(st.integers(1, length + 500), max_size=8))
    sizes = draw(st.sampled_from([st.just(100), st.integers(1, 300)]))
    begin = draw(st.integers(0, length))
    forbidden = ((begin, draw(st.integers(begin, length))),) if draw(st.booleans()) else ()
    return PlanRequest(
        length,
        tuple(candidates),
        common_prefix=common,
        live=draw(st.none() | st.integers(0, length + 100)),
        existing=tuple(Existing(offset, draw(sizes), draw(st.integers(0, 5))) for offset in sorted(stored)),
        forbidden=forbidden,
        wanted=tuple(draw(st.sets(offsets, max_size=2))),
        memory=draw(st.sampled_from(["hybrid", "swa", "recurrent", "swa+recurrent", "dense"])),
        window=draw(st.none() | st.integers(1, 2000)),
        budget=Budget(draw(st.none() | st.integers(0, 8)), draw(st.none() | st.integers(0, 1200))),
        state_bytes=draw(st.sampled_from(SIZES)),
        costs=Costs(per_break=draw(st.sampled_from([0.0, 0.01, 10.0])), per_save=draw(st.sampled_from([0.0, 0.002]))),
        n_batch=draw(st.sampled_from([64, 2048])),
        n_ubatch=draw(st.sampled_from([16, 512])),
        timeout=draw(st.sampled_from([None, None, 1.0, 30.0])),
        policy=draw(st.sampled_from(POLICIES)),
        min_step=draw(st.sampled_from([0, 100, 8192])),
        every_n=draw(st.sampled_from([100, 8192])),
    )


def within(budget: Budget, stored: dict[int, int]) -> bool:
    return (budget.checkpoints is None or len(stored) <= budget.checkpoints) and (
        budget.bytes is None or sum(stored.values()) <= budget.bytes
    )


def run(request: PlanRequest, made: Plan, *, evict_first: bool) -> dict[int, int]:
    """Execute the deletions and saves of a plan; the budget is asserted after each.

    `evict_first`: what existed before is deleted before all saves.
    """
    stored = {existing.offset: request.size_of(existing) for existing in request.existing}
    if made.restore and made.restore.source == "checkpoint":
        assert made.restore.offset in stored
    pending = list(made.evict)
    for eviction in made.evict:
        if eviction.before is None or (evict_first and eviction.offset in stored):
            del stored[eviction.offset]
            pending.remove(eviction)
    assert within(request.budget, stored)
    for step in made.steps:
        if step.save:
            while pending and pending[0].before == step.end:
                del stored[pending.pop(0).offset]
            assert step.end not in stored
            stored[step.end] = request.bytes_at(step.end)
            assert within(request.budget, stored)
    assert not pending
    return stored


@settings(max_examples=200)
@given(requests())
def test_the_steps_tile_the_prompt_from_the_restored_offset(request: PlanRequest) -> None:
    made = plan(request)
    begin = made.restore.offset if made.restore else 0
    assert begin <= min(request.common_prefix, request.prompt_tokens - 1)
    for step in made.steps:
        assert step.begin == begin
        assert begin < step.end or (step is made.steps[0] and request.policy == "barriers")
        begin = step.end
    assert begin == request.prompt_tokens


@settings(max_examples=200)
@given(requests(), st.booleans())
def test_the_budget_holds_at_every_moment(request: PlanRequest, evict_first: bool) -> None:
    made = plan(request)
    stored = run(request, made, evict_first=evict_first)
    assert tuple(sorted(stored)) == made.kept
    if request.memory != "dense":
        assert all(offset <= max(request.common_prefix, *made.saves, 0) for offset in stored)


@settings(max_examples=200)
@given(requests())
def test_states_are_saved_only_where_that_is_allowed(request: PlanRequest) -> None:
    assert all(request.allows(offset) for offset in plan(request).saves)


@settings(max_examples=200)
@given(requests())
def test_no_policy_is_expected_to_beat_the_optimum(request: PlanRequest) -> None:
    made = plan(request)
    found = compare(request, made)
    assert found.optimal_replay_tokens <= min(made.expected_replay_tokens, *found.baselines.values()) + 1e-6
    assert found.optimal_replay_seconds <= min(made.expected_replay_seconds, *found.baseline_seconds.values()) + 1e-6


@settings(max_examples=100)
@given(requests())
def test_the_same_request_gives_the_same_plan(request: PlanRequest) -> None:
    assert plan(request) == plan(replace(request))


@settings(max_examples=100)
@given(requests(), st.randoms())
def test_the_order_of_what_is_known_does_not_matter(request: PlanRequest, random: Any) -> None:
    candidates = list({candidate.offset: candidate for candidate in request.candidates}.values())
    existing = list(request.existing)
    first = plan(replace(request, candidates=tuple(candidates)))
    random.shuffle(candidates)
    random.shuffle(existing)
    assert plan(replace(request, candidates=tuple(candidates), existing=tuple(existing))) == first


@settings(max_examples=100)
@given(requests())
def test_every_plan_can_be_told_and_written(request: PlanRequest) -> None:
    made = plan(request)
    found = compare(request, made)
    assert made.explain(found)
    assert write_plan(made, found)


@settings(max_examples=50)
@given(requests())
def test_a_plan_is_a_value(request: PlanRequest) -> None:
    made = plan(request)
    for other in (pickle.loads(pickle.dumps(made)), deepcopy(made), plan(request)):
        assert other == made
        assert hash(other) == hash(made)
        assert compare(request, other) == compare(request, made)
    plain = (type(None), str, int, float, tuple, Restore, Step, Eviction)
    assert all(isinstance(getattr(made, field.name), plain) for field in fields(made))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_is_compared_with_all_others(policy: Any) -> None:
    request = PlanRequest(1000, policy=policy)
    made = plan(request)
    assert made.policy == policy
    assert compare(request, made).baselines.keys() == set(POLICIES) - {policy}


def test_a_policy_expects_what_the_others_say_of_it() -> None:
    request = PlanRequest(30_000, (Candidate(9000, "system_end"), Candidate(9300, "assistant_start")))
    adaptive = plan(request)
    for policy, tokens in compare(request, adaptive).baselines.items():
        assert plan(replace(request, policy=policy)).expected_replay_tokens == tokens  # type: ignore[arg-type]


def test_seconds_count_the_tokens_and_the_restore() -> None:
    request = PlanRequest(1000, policy="shallow", costs=Costs(seconds_per_token=0.5, per_restore=0.0))
    assert plan(request).expected_replay_seconds == pytest.approx(0.5 * plan(request).expected_replay_tokens)
    dear = plan(replace(request, costs=Costs(seconds_per_token=0.5, per_restore=4.0)))
    assert dear.expected_replay_seconds > plan(request).expected_replay_seconds


def tool_rounds(count: int, **rest: Any) -> PlanRequest:
    """An old conversation, cold: system text, a user message, then calls and results of tools."""
    candidates = [Candidate(9000, "system_end"), Candidate(9300, "assistant_start")]
    end = 9300
    for i in range(count):
        candidates.append(Candidate(end := end + 60 + 7 * (i % 20), "tool_start"))
        candidates.append(Candidate(end := end + 200 + 550 * (i % 5), "assistant_start"))
    candidates[-1] = Candidate(end, "generation_prompt")
    return PlanRequest(end + 4, tuple(candidates), **rest)


@pytest.mark.parametrize("k", [4, 8, 32])
def test_s35_a_break_that_costs_ten_seconds_is_taken_once_at_most(k: int) -> None:
    made = plan(tool_rounds(40, costs=Costs(per_break=10.0), budget=Budget(k)))
    assert made.breaks <= 1
    assert made.saves[-1] == made.prompt_tokens
    assert made.overhead_seconds <= 10 + 0.01


@pytest.mark.parametrize("k", [4, 8, 32])
def test_breaks_that_cost_nothing_are_as_many_as_the_budget_allows(k: int) -> None:
    made = plan(tool_rounds(40, costs=Costs(per_break=0.0), budget=Budget(k)))
    assert made.breaks == len(made.saves) == k


@settings(max_examples=200)
@given(requests())
def test_every_break_pays_for_itself(request: PlanRequest) -> None:
    request = replace(request, policy="adaptive", timeout=None)
    made = plan(request)
    if request.memory == "dense":
        return
    prior = situate(request, made.restore.offset if made.restore else 0).prior
    for offset in made.saves:
        if offset < request.prompt_tokens:
            without = prior.replay([kept for kept in made.kept if kept != offset])
            gain = prior.rate * (without - prior.replay(made.kept)) * request.costs.seconds_per_token
            assert gain >= request.price_of(offset) - 1e-9


def test_around_media_the_evaluation_pauses_anyway_and_a_state_there_costs_no_break() -> None:
    request = PlanRequest(900, tuple(Candidate(at, "user_start") for at in (100, 300)), forbidden=((100, 300),))
    assert [request.breaks(at) for at in (99, 100, 300, 301, 900)] == [True, False, False, True, False]
    made = plan(replace(request, costs=Costs(per_break=1000.0)))
    assert set(made.saves) <= {100, 300, 900}
    assert 300 in made.saves
    assert made.overhead_seconds == pytest.approx(len(made.saves) * request.costs.per_save)


def test_nothing_but_the_chosen_policy_is_worked_out_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    request = tool_rounds(3)
    monkeypatch.setattr("planner.planning.REGISTRY", {"adaptive": REGISTRY["adaptive"]})
    made = plan(request)
    monkeypatch.setattr("planner.comparison.REGISTRY", {})
    with pytest.raises(KeyError):
        compare(request, made)
