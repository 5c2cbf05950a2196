"""From a request to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import final

from planner.memory import needs_states
from planner.outcome import Eviction, Plan, Restore, Step
from planner.policies.branches import share_room
from planner.policies.registry import REGISTRY
from planner.policies.situation import Mark, Placement, Situation, situate
from planner.request import PlanRequest
from planner.restoring import restore_of
from planner.stride import fill, stride_of


def plan(request: PlanRequest) -> Plan:
    """Decide what to restore, where to break and save, and what to evict, for one prompt.

    Pure and deterministic: the same request gives the same plan.
    """
    restore = restore_of(request)
    begin = restore.offset if restore else 0
    if not needs_states(request.memory):
        return _dense_plan(request, restore, begin)
    situation, gone = share_room(situate(request, begin))
    policy = REGISTRY[request.policy]
    placement = policy.place(situation)
    if policy.knows_timeouts:
        placement = _interruptible(situation, placement)
    kept = placement.kept(situation.held)
    worth = situation.worth_of(kept)
    steps = _steps(situation, placement)
    return Plan(
        policy=request.policy,
        memory=request.memory,
        prompt_tokens=request.prompt_tokens,
        restore=restore,
        steps=steps,
        evict=_named(request, (*_lost(request), *gone, *placement.evict)),
        kept=kept,
        expected_replay_tokens=worth.tokens,
        expected_replay_seconds=worth.seconds,
        overhead_seconds=sum(_overhead(step, request) for step in steps),
        expected_returns=situation.returns(kept),
    )


def _overhead(step: Step, request: PlanRequest) -> float:
    forced = step.begin < step.end and request.breaks(step.end)
    return forced * request.costs.per_break + step.save * request.costs.per_save


def _dense_plan(request: PlanRequest, restore: Restore | None, begin: int) -> Plan:
    """A dense memory goes back to any offset by itself: one step, nothing stored, nothing replayed."""
    reason = "a dense memory needs no checkpoints"
    return Plan(
        policy=request.policy,
        memory=request.memory,
        prompt_tokens=request.prompt_tokens,
        restore=restore,
        steps=(Step(begin, request.prompt_tokens, False, "prompt_end", "the prompt ends"),),
        evict=_named(request, [Eviction(offset, reason) for offset in sorted(e.offset for e in request.existing)]),
        kept=(),
        expected_replay_tokens=0.0,
        expected_replay_seconds=0.0,
        overhead_seconds=0.0,
    )


def _lost(request: PlanRequest) -> tuple[Eviction, ...]:
    reason = f"past the {request.common_prefix} shared tokens: the prompt goes on differently"
    offsets = sorted(e.offset for e in request.existing if e.offset > request.common_prefix and not e.beside)
    return tuple(Eviction(offset, reason) for offset in offsets)


def _named(request: PlanRequest, evict: Sequence[Eviction]) -> tuple[Eviction, ...]:
    names = {e.offset: e.identity for e in request.existing if e.identity is not None and not e.beside}
    if not names:
        return tuple(evict)
    return tuple(replace(eviction, identity=eviction.identity or names.get(eviction.offset)) for eviction in evict)


def _interruptible(situation: Situation, placement: Placement) -> Placement:
    """With states on the way wherever saves are more than a stride apart; each goes at the next save.

    They use the room of the saves to come; where there is none, what is worth least goes for good: no state is worth a
    prompt that is never done.
    """
    request = situation.request
    stride = stride_of(request)
    if stride is None:
        return placement
    marks = {mark.offset: mark for mark in placement.marks}
    saved = [mark.offset for mark in placement.marks if mark.save]
    reason = f"a try that is cut short goes on from here: at most {stride} tokens are lost"
    shelf = _Shelf(situation, placement)
    for offset in sorted({*saved, *fill(request, situation.begin, saved, stride)}):
        if shelf.put(offset, passing=offset not in saved):
            marks[offset] = marks[offset] if offset in saved else Mark(offset, "stride", reason)
    return Placement(tuple(marks[offset] for offset in sorted(marks)), tuple(shelf.evict))


@final
class _Shelf:
    """What is stored while a placement is executed with states on the way, and the evictions that makes."""

    def __init__(self, situation: Situation, placement: Placement) -> None:
        self._request, self._prior = situation.request, situation.prior
        self._stored = {existing.offset: self._request.size_of(existing) for existing in situation.held}
        self.evict = [eviction for eviction in placement.evict if eviction.before is None]
        for eviction in self.evict:
            del self._stored[eviction.offset]
        self._todo = [eviction for eviction in placement.evict if eviction.before is not None]
        self._passing: int | None = None

    def put(self, offset: int, *, passing: bool) -> bool:
        """Store a state and evict what is due or must make room for it; False if the budget is less than one state."""
        size = self._request.bytes_at(offset)
        if not self._request.budget.holds(1, size):
            return False
        if self._passing is not None:
            del self._stored[self._passing]
            self.evict.append(Eviction(self._passing, "the next state on the way is about to be saved", offset))
        while self._todo and (self._todo[0].before or 0) <= offset:
            self._give_up(self._todo.pop(0), offset)
        while not self._request.budget.holds(len(self._stored) + 1, sum(self._stored.values()) + size):
            self._give_up(self._todo.pop(0) if self._todo else self._least(), offset)
        self._stored[offset] = size
        self._passing = offset if passing else None
        return True

    def _give_up(self, eviction: Eviction, before: int) -> None:
        del self._stored[eviction.offset]
        self.evict.append(replace(eviction, before=before))

    def _least(self) -> Eviction:
        replay = self._prior.replay
        offset = min(self._stored, key=lambda offset: replay(sorted(self._stored.keys() - {offset})))
        return Eviction(offset, "of what is stored it saves least, and the states on the way need room")


def _steps(situation: Situation, placement: Placement) -> tuple[Step, ...]:
    end = situation.request.prompt_tokens
    marks = {mark.offset: mark for mark in placement.marks}
    last = marks.setdefault(end, Mark(end, "prompt_end", "the prompt ends", save=False))
    marks[end] = last._replace(kind="prompt_end")
    offsets = (situation.begin, *sorted(marks))
    return tuple(
        Step(begin, end, marks[end].save, marks[end].kind, marks[end].reason) for begin, end in pairwise(offsets)
    )
