"""States of other conversations, where a memory keeps them: which are worth their room beside the prompt at hand.

Such a state serves only a prompt that comes back to its conversation. What it would serve then is known from when that
was planned last (`Plan.returns`), and the last state of each conversation is where it goes on, which is likely right
after it was left for a sub-agent; both fade with each request that goes elsewhere. A state that is given up leaves
what it would have served to the one before it. So the states are put in the order in which giving them up costs least,
and room is shared by exchange: one more of them stays as long as it is worth more than the best use of that room
on the prompt's own line, whose returns only diminish (`line`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, final

from planner.budget import Budget
from planner.expectation.weights import BRANCHES, FITTED_BRANCHES
from planner.offsets import Existing
from planner.outcome import Eviction
from planner.policies.adaptive import possible_places, wish_of
from planner.policies.registry import REGISTRY
from planner.policies.situation import Situation


@final
class _Beside(NamedTuple):
    """A state on another branch, and the seconds that giving it up costs after those that cost less."""

    existing: Existing
    worth: float


def share_room(situation: Situation) -> tuple[Situation, tuple[Eviction, ...]]:
    """The situation with what budget is left beside the other branches' states that stay, and evictions of the rest.

    A policy that does not know of branches loses what the prompt does not share.
    """
    beside = tuple(existing for existing in situation.request.existing if existing.beside)
    if not beside:
        return situation, ()
    if not REGISTRY[situation.request.policy].knows_branches:
        return situation, tuple(_gone(e, "this policy knows one conversation at a time") for e in beside)
    ranked = _ranked(situation, beside)
    kept = _number_kept(situation, ranked)
    reason = "another conversation's state, worth less than the room for one of this prompt's"
    evict = tuple(_gone(state.existing, reason) for state in ranked[kept:])
    budget = _left(situation, ranked[:kept])
    return situation._replace(request=replace(situation.request, budget=budget)), evict


def _gone(existing: Existing, reason: str) -> Eviction:
    return Eviction(existing.offset, reason, identity=existing.identity)


def _ranked(situation: Situation, beside: Sequence[Existing]) -> list[_Beside]:
    """The states by what they are worth, most first."""
    rate = situation.request.costs.seconds_per_token
    weights = BRANCHES if situation.roles.marked else FITTED_BRANCHES
    left = sorted(beside, key=lambda existing: (existing.parts_at, existing.branch, existing.offset))
    masses = [existing.returns for existing in left]
    for i, existing in enumerate(left):
        if i + 1 == len(left) or not _together(left[i + 1], existing):
            masses[i] += weights.end
        masses[i] *= float(weights.fading**existing.age)
    gone: list[_Beside] = []
    while left:
        least, worth = 0, float("inf")
        for i, existing in enumerate(left):
            replayed = existing.offset - _before(left, i)
            if masses[i] * replayed * rate < worth:
                least, worth = i, masses[i] * replayed * rate
        state, mass = left.pop(least), masses.pop(least)
        if least > 0 and _together(left[least - 1], state):
            masses[least - 1] += mass
        gone.append(_Beside(state, worth))
    return gone[::-1]


def _before(states: Sequence[Existing], i: int) -> int:
    """Where a prompt that wants state i starts without it: the state before, or where the branches part."""
    same = i > 0 and _together(states[i - 1], states[i])
    return states[i - 1].offset if same else states[i].parts_at


def _together(one: Existing, other: Existing) -> bool:
    """Whether two states are of the same conversation."""
    return (one.parts_at, one.branch) == (other.parts_at, other.branch)


def _left(situation: Situation, kept: Sequence[_Beside]) -> Budget:
    """The budget less what the kept states take."""
    request = situation.request
    count, size = request.budget.checkpoints, request.budget.bytes
    return Budget(
        None if count is None else max(0, count - len(kept)),
        None if size is None else max(0, size - sum(request.size_of(state.existing) for state in kept)),
    )


def _number_kept(situation: Situation, ranked: Sequence[_Beside]) -> int:
    """How many of the states beside stay, the most valuable first."""
    request, places = situation.request, possible_places(situation)
    prices = {place.offset: place.price for place in places}

    def cost(number: int) -> float:
        budget = _left(situation, ranked[:number])
        chosen = wish_of(situation._replace(request=replace(request, budget=budget)), places)
        replay = situation.prior.rate * situation.prior.replay(chosen) * request.costs.seconds_per_token
        return replay + sum(prices[offset] for offset in chosen) - sum(state.worth for state in ranked[:number])

    most = _most(situation, ranked)
    number, least = 0, cost(0)
    while number < most and (following := cost(number + 1)) <= least:
        number, least = number + 1, following
    return number


def _most(situation: Situation, ranked: Sequence[_Beside]) -> int:
    """How many of them the budget could hold at all."""
    budget, request = situation.request.budget, situation.request
    size = 0
    for number, state in enumerate(ranked):
        size += request.size_of(state.existing)
        if budget.checkpoints is not None and number >= budget.checkpoints:
            return number
        if budget.bytes is not None and size > budget.bytes:
            return number
    return len(ranked)
