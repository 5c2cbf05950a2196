"""What every placement policy starts from, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple, final

from planner.expectation.prior import Prior
from planner.expectation.roles import Roles
from planner.outcome import Eviction
from planner.request import Budget, Existing, Kind, PlanRequest


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


def fits(budget: Budget, count: int, size: int) -> bool:
    """Whether `count` checkpoints of `size` bytes in all are within `budget`."""
    return (budget.checkpoints is None or count <= budget.checkpoints) and (
        budget.bytes is None or size <= budget.bytes
    )
