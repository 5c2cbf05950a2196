"""What else could be done with a prompt, and what that is expected to be worth."""

from __future__ import annotations

from planner.memory import needs_states
from planner.optimum.selection import Point, select
from planner.outcome import Comparison, Plan
from planner.policies.adaptive import possible_places
from planner.policies.branches import share_room
from planner.policies.registry import REGISTRY
from planner.policies.situation import Situation, Worth, situate
from planner.request import POLICIES, PlanRequest


def compare(request: PlanRequest, plan: Plan) -> Comparison:
    """The other policies, and the best that the budget allows, for a request and the plan that was made of it.

    It takes as long as planning by every policy. What `Planner.plan` makes a plan of is `Planner.expecting`'s request.
    """
    others = [name for name in POLICIES if name != plan.policy]
    if not needs_states(request.memory):
        return Comparison(0.0, 0.0, dict.fromkeys(others, 0.0), dict.fromkeys(others, 0.0))
    situation, _ = share_room(situate(request, plan.restore.offset if plan.restore else 0))
    kept = {name: policy.place(situation).kept(situation.held) for name, policy in REGISTRY.items()}
    best = _optimum(situation, {offset for offsets in kept.values() for offset in offsets})
    worth = {name: situation.worth_of(kept[name]) for name in others}
    return Comparison(
        best.tokens,
        best.seconds,
        {name: each.tokens for name, each in worth.items()},
        {name: each.seconds for name, each in worth.items()},
    )


def _optimum(situation: Situation, chosen: set[int]) -> Worth:
    """The least tokens, and the least seconds, that any set within the budget is expected to leave to replay.

    Whatever saving costs; of all offsets that `adaptive` could choose and all that any policy has `chosen`.
    """
    request = situation.request
    sizes = {existing.offset: request.size_of(existing) for existing in situation.held}
    pool = chosen.union(place.offset for place in possible_places(situation))
    points = [Point(offset, size=sizes.get(offset, request.bytes_at(offset))) for offset in sorted(pool)]
    rate, per_restore = request.costs.seconds_per_token, request.costs.per_restore
    tokens = select(points, situation.prior, request.budget) or ()
    seconds = select(points, situation.prior, request.budget, rate=rate, per_restore=per_restore) or ()
    return Worth(situation.worth_of(tokens).tokens, situation.worth_of(seconds).seconds)
