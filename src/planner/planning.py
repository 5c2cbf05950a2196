"""From a request to a plan."""

from __future__ import annotations

from collections.abc import Callable

from planner.adaptive import place_adaptive, possible_places
from planner.baselines import BASELINES
from planner.outcome import Eviction, Plan, Restore, Step
from planner.prior import prior_of
from planner.request import POLICIES, PlanRequest, PolicyName
from planner.restoring import restore_of
from planner.roles import roles_of
from planner.selection import Point, select
from planner.situation import Placement, Situation

PLACEMENTS: dict[PolicyName, Callable[[Situation], Placement]] = {"adaptive": place_adaptive, **BASELINES}


def make_plan(request: PlanRequest) -> Plan:
    """See `planner.plan`."""
    restore = restore_of(request)
    begin = restore.offset if restore else 0
    if request.memory == "dense":
        return _dense_plan(request, restore, begin)
    situation = situate(request, begin)
    prior, held = situation.prior, situation.held
    placements = {name: place(situation) for name, place in PLACEMENTS.items()}
    kept = {name: placement.kept(held) for name, placement in placements.items()}
    expected = {name: prior.replay(offsets) for name, offsets in kept.items()}
    chosen = kept[request.policy]
    costs = request.costs
    restored_mass = 1.0 - prior.below(chosen[0])[0] if chosen else 0.0
    return Plan(
        policy=request.policy,
        memory=request.memory,
        prompt_tokens=request.prompt_tokens,
        restore=restore,
        steps=_steps(situation, placements[request.policy]),
        evict=(*_lost(request), *placements[request.policy].evict),
        kept=chosen,
        expected_replay_tokens=expected[request.policy],
        optimal_replay_tokens=_optimum(situation, [offset for offsets in kept.values() for offset in offsets]),
        expected_replay_seconds=expected[request.policy] * costs.seconds_per_token + restored_mass * costs.per_restore,
        baselines={name: expected[name] for name in POLICIES if name != request.policy},
    )


def situate(request: PlanRequest, begin: int) -> Situation:
    """What a policy starts from when evaluation begins after `begin` tokens."""
    roles = roles_of(request)
    held = tuple(sorted((e for e in request.existing if e.offset <= request.common_prefix), key=lambda e: e.offset))
    return Situation(request, begin, held, roles, prior_of(request, roles))


def _dense_plan(request: PlanRequest, restore: Restore | None, begin: int) -> Plan:
    """A dense memory goes back to any offset by itself: one step, nothing stored, nothing replayed."""
    return Plan(
        policy=request.policy,
        memory=request.memory,
        prompt_tokens=request.prompt_tokens,
        restore=restore,
        steps=(Step(begin, request.prompt_tokens, False, "prompt_end", "the prompt ends"),),
        evict=tuple(
            Eviction(e.offset, "a dense memory needs no checkpoints")
            for e in sorted(request.existing, key=lambda e: e.offset)
        ),
        kept=(),
        expected_replay_tokens=0.0,
        optimal_replay_tokens=0.0,
        expected_replay_seconds=0.0,
        baselines={name: 0.0 for name in POLICIES if name != request.policy},
    )


def _lost(request: PlanRequest) -> tuple[Eviction, ...]:
    reason = f"past the {request.common_prefix} shared tokens: the prompt goes on differently"
    offsets = sorted(e.offset for e in request.existing if e.offset > request.common_prefix)
    return tuple(Eviction(offset, reason) for offset in offsets)


def _steps(situation: Situation, placement: Placement) -> tuple[Step, ...]:
    end = situation.request.prompt_tokens
    marks = [mark for mark in placement.marks if mark.offset < end]
    last = next((mark for mark in placement.marks if mark.offset == end), None)
    begins = [situation.begin, *(mark.offset for mark in marks)]
    steps = [Step(begin, m.offset, m.save, m.kind, m.reason) for begin, m in zip(begins, marks, strict=False)]
    reason = last.reason if last else "the prompt ends"
    steps.append(Step(begins[-1], end, last is not None and last.save, "prompt_end", reason))
    return tuple(steps)


def _optimum(situation: Situation, offsets: list[int]) -> float:
    """Expected replay of the best set among all that adaptive could choose and all that any policy did."""
    request = situation.request
    sizes = {existing.offset: request.size_of(existing) for existing in situation.held}
    pool = {place.offset for place in possible_places(situation)} | set(offsets)
    points = [Point(offset, size=sizes.get(offset, request.state_bytes)) for offset in sorted(pool)]
    best = select(points, situation.prior, request.budget)
    return situation.prior.replay(best or ())
