"""What every placement policy starts from, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, final

from planner.expectation.prior import Prior, prior_of
from planner.expectation.roles import Roles, roles_of
from planner.offsets import Existing, Kind
from planner.outcome import Eviction
from planner.request import PlanRequest


@final
class Worth(NamedTuple):
    """Expected replay of the next prompt, should it not simply extend the memory; seconds include the restore."""

    tokens: float
    seconds: float


@final
class Situation(NamedTuple):
    """A request with what follows from it.

    `begin` is the restored offset; `held` are the checkpoints that survive the common prefix, ascending.
    """

    request: PlanRequest
    begin: int
    held: tuple[Existing, ...]
    roles: Roles
    prior: Prior

    def worth_of(self, kept: Sequence[int]) -> Worth:
        """What the checkpoints at the offsets `kept`, ascending, are expected to leave to replay."""
        costs, tokens = self.request.costs, self.prior.replay(kept)
        restored = 1.0 - self.prior.below(kept[0])[0] if kept else 0.0
        return Worth(tokens, tokens * costs.seconds_per_token + restored * costs.per_restore)

    def returns(self, kept: Sequence[int]) -> tuple[float, ...]:
        """How many prompts to come are expected to part between each of the offsets `kept`, ascending, and the next."""
        masses = [self.prior.below(offset)[0] for offset in (*kept, self.prior.length + 1)]
        return tuple(self.prior.rate * (b - a) for a, b in pairwise(masses))


@final
class Mark(NamedTuple):
    """An offset at which a policy breaks the evaluation; none is needed where that begins and at the prompt's end."""

    offset: int
    kind: Kind
    reason: str
    save: bool = True


@final
class Placement(NamedTuple):
    """What a policy decides: the breaks, ascending, and the evictions, in order, of checkpoints in `held`.

    With a timeout also of states that are only stored on the way.
    """

    marks: tuple[Mark, ...]
    evict: tuple[Eviction, ...]

    def kept(self, held: tuple[Existing, ...]) -> tuple[int, ...]:
        """The offsets stored afterwards, ascending."""
        gone = {eviction.offset for eviction in self.evict}
        stored = {existing.offset for existing in held} | {mark.offset for mark in self.marks if mark.save}
        return tuple(sorted(stored - gone))


def situate(request: PlanRequest, begin: int) -> Situation:
    """What a policy starts from when evaluation begins after `begin` tokens."""
    roles = roles_of(request)
    held = (e for e in request.existing if e.offset <= request.common_prefix and not e.beside)
    return Situation(request, begin, tuple(sorted(held, key=lambda e: e.offset)), roles, prior_of(request, roles))
