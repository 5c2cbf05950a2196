"""From a request to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import final

from planner.comparison import Alternatives, worth_of
from planner.outcome import Eviction, Plan, Restore, Step
from planner.policies import PLACEMENTS
from planner.prior import prior_of
from planner.request import PlanRequest
from planner.restoring import restore_of
from planner.roles import roles_of
from planner.situation import Mark, Placement, Situation, fits
from planner.stride import fill, stride_of


def make_plan(request: PlanRequest) -> Plan:
    """See `planner.plan`."""
    restore = restore_of(request)
    begin = restore.offset if restore else 0
    if request.memory == "dense":
        return _dense_plan(request, restore, begin)
    situation = situate(request, begin)
    placement = PLACEMENTS[request.policy](situation)
    if request.policy == "adaptive":
        placement = _interruptible(situation, placement)
    kept = placement.kept(situation.held)
    worth = worth_of(situation, kept)
    steps = _steps(situation, placement)
    costs = request.costs
    return Plan(
        policy=request.policy,
        memory=request.memory,
        prompt_tokens=request.prompt_tokens,
        restore=restore,
        steps=steps,
        evict=_named(request, (*_lost(request), *placement.evict)),
        kept=kept,
        expected_replay_tokens=worth.tokens,
        expected_replay_seconds=worth.seconds,
        overhead_seconds=(len(steps) - 1) * costs.per_break + sum(step.save for step in steps) * costs.per_save,
        alternatives=Alternatives(situation, request.policy),
    )


def situate(request: PlanRequest, begin: int) -> Situation:
    """What a policy starts from when evaluation begins after `begin` tokens."""
    roles = roles_of(request)
    held = tuple(sorted((e for e in request.existing if e.offset <= request.common_prefix), key=lambda e: e.offset))
    return Situation(request, begin, held, roles, prior_of(request, roles))


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
    offsets = sorted(e.offset for e in request.existing if e.offset > request.common_prefix)
    return tuple(Eviction(offset, reason) for offset in offsets)


def _named(request: PlanRequest, evict: Sequence[Eviction]) -> tuple[Eviction, ...]:
    names = {e.offset: e.identity for e in request.existing if e.identity is not None}
    if not names:
        return tuple(evict)
    return tuple(replace(eviction, identity=names.get(eviction.offset)) for eviction in evict)


def _interruptible(situation: Situation, placement: Placement) -> Placement:
    """With states on the way wherever saves are more than a stride apart; each goes at the next save.

    They use the room of the saves to come. Where all that the policy keeps is stored already and fills the budget there
    is none, and what comes after can only be evaluated in one go.
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
        self._request = situation.request
        self._stored = {existing.offset: self._request.size_of(existing) for existing in situation.held}
        self.evict = [eviction for eviction in placement.evict if eviction.before is None]
        for eviction in self.evict:
            del self._stored[eviction.offset]
        self._todo = [eviction for eviction in placement.evict if eviction.before is not None]
        self._passing: int | None = None

    def put(self, offset: int, *, passing: bool) -> bool:
        """Store a state and evict what is due or must make room for it; False if it is on the way and finds no room."""
        size = self._request.bytes_at(offset)
        if passing and not self._fits(size, self._passing, *(eviction.offset for eviction in self._todo)):
            return False
        if self._passing is not None:
            del self._stored[self._passing]
            self.evict.append(Eviction(self._passing, "the next state on the way is about to be saved", offset))
        while self._todo and (not self._fits(size) if passing else (self._todo[0].before or 0) <= offset):
            eviction = self._todo.pop(0)
            del self._stored[eviction.offset]
            self.evict.append(replace(eviction, before=offset))
        self._stored[offset] = size
        self._passing = offset if passing else None
        return True

    def _fits(self, size: int, *without: int | None) -> bool:
        left = [held for offset, held in self._stored.items() if offset not in without]
        return fits(self._request.budget, len(left) + 1, sum(left) + size)


def _steps(situation: Situation, placement: Placement) -> tuple[Step, ...]:
    end = situation.request.prompt_tokens
    marks = {mark.offset: mark for mark in placement.marks}
    last = marks.setdefault(end, Mark(end, "prompt_end", "the prompt ends", save=False))
    marks[end] = last._replace(kind="prompt_end")
    offsets = (situation.begin, *sorted(marks))
    return tuple(
        Step(begin, end, marks[end].save, marks[end].kind, marks[end].reason) for begin, end in pairwise(offsets)
    )
