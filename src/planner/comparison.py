"""What else could be done with a prompt, and what that is expected to be worth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, final

from planner.optimum.selection import Point, select
from planner.policies.adaptive import possible_places
from planner.policies.registry import PLACEMENTS
from planner.policies.situation import Situation
from planner.request import PolicyName


@final
class Worth(NamedTuple):
    """Expected replay of the next prompt, should it not simply extend the memory; seconds include the restore."""

    tokens: float
    seconds: float


def worth_of(situation: Situation, kept: Sequence[int]) -> Worth:
    """What the checkpoints at the offsets `kept`, ascending, are expected to leave to replay."""
    prior, costs = situation.prior, situation.request.costs
    tokens = prior.replay(kept)
    restored = 1.0 - prior.below(kept[0])[0] if kept else 0.0
    return Worth(tokens, tokens * costs.seconds_per_token + restored * costs.per_restore)


@final
class Alternatives:
    """The other policies and the optimum for one situation. Nothing is worked out before it is asked for."""

    def __init__(self, situation: Situation, policy: PolicyName) -> None:
        self._situation = situation
        self._policy = policy

    @cached_property
    def baselines(self) -> dict[str, Worth]:
        """Every other policy's worth, from the same start."""
        return {name: worth_of(self._situation, kept) for name, kept in self._kept.items() if name != self._policy}

    @cached_property
    def optimum(self) -> Worth:
        """The least tokens, and the least seconds, that any set within the budget is expected to leave to replay.

        Whatever saving costs; of all offsets that `adaptive` could choose and all that any policy did.
        """
        situation, request = self._situation, self._situation.request
        sizes = {existing.offset: request.size_of(existing) for existing in situation.held}
        pool = {place.offset for place in possible_places(situation)}
        pool.update(offset for offsets in self._kept.values() for offset in offsets)
        points = [Point(offset, size=sizes.get(offset, request.bytes_at(offset))) for offset in sorted(pool)]
        rate, per_restore = request.costs.seconds_per_token, request.costs.per_restore
        tokens = select(points, situation.prior, request.budget) or ()
        seconds = select(points, situation.prior, request.budget, rate=rate, per_restore=per_restore) or ()
        return Worth(worth_of(situation, tokens).tokens, worth_of(situation, seconds).seconds)

    def returns(self, kept: Sequence[int]) -> dict[int, float]:
        """How many prompts to come are expected to part between each of the offsets `kept`, ascending, and the next."""
        prior = self._situation.prior
        masses = [prior.below(offset)[0] for offset in (*kept, prior.length + 1)]
        return {offset: prior.rate * (b - a) for offset, (a, b) in zip(kept, pairwise(masses), strict=True)}

    @cached_property
    def _kept(self) -> dict[PolicyName, tuple[int, ...]]:
        situation = self._situation
        return {name: place(situation).kept(situation.held) for name, place in PLACEMENTS.items()}
