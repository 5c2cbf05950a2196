"""Replay on a memory that keeps branches: checkpoints survive when a prompt goes on differently.

A request may share its beginning with any earlier request of its session, sub-agents' included, and restores the
largest checkpoint on its own path. The budget is for the session. The tip, the state at the end of the most recent
request's prompt, serves a prompt that extends it and counts for nothing; answers are not credited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, final

from planner.expectation.learning import Divergence, Planner
from planner.outcome import Plan
from planner.request import Existing, PlanRequest
from planner.simulation.line import reason_of, start_of
from planner.simulation.outcome import Outcome, outcome_of
from planner.simulation.session import Session


@final
class _State(NamedTuple):
    """A checkpoint after `offset` tokens of prompt `owner`; `used`: the last request whose prompt began with it."""

    offset: int
    owner: int
    size: int
    used: int
    returns: float = 0.0

    @property
    def identity(self) -> str:
        return f"{self.owner}:{self.offset}"


def replay_tree(session: Session, base: PlanRequest, planner: Planner, *, main: bool = False) -> Iterator[Outcome]:
    """What each prompt costs; the arguments are those of `replay_line`."""
    stored: list[_State] = []
    lost: list[tuple[int, int]] = []
    seen: list[int] = []
    for i, prompt in enumerate(session.prompts):
        if main and not prompt.main:
            continue
        nearest = _nearest(session, i, seen)
        shared = 0 if nearest is None else session.common(i, nearest)
        before = seen[-1] if seen else None
        tip = 0 if before is None else session.prompts[before].length
        live = tip if before is not None and session.common(i, before) == tip else None
        first = before is None
        seen.append(i)
        bound = max(session.least, prompt.length - shared)
        if bound == 0 and live == prompt.length:
            size = sum(state.size for state in stored)
            kept = tuple(sorted(state.offset for state in stored))
            yield Outcome(first, prompt.length, 0, 0, shared, shared, 0, 0, None, kept, size)
            continue
        static, system = start_of(prompt)
        if nearest is not None and shared < session.prompts[nearest].length:
            length = session.prompts[nearest].length
            planner.observe(Divergence(shared, length, session.name, prompt.tools, static, system))
        existing = _seen_from(session, i, stored, base.policy == "adaptive")
        request = replace(
            base,
            prompt_tokens=prompt.length,
            candidates=prompt.candidates,
            common_prefix=shared,
            live=live,
            existing=tuple(existing.values()),
            block=session.block,
        )
        plan = planner.plan(request, session=session.name, tools=prompt.tools, static=static)
        begin = plan.restore.offset if plan.restore else 0
        went_on = plan.restore is not None and plan.restore.source == "live"
        given_up = {offset for offset, owner in lost if offset <= session.common(i, owner)}
        reason = None if first or went_on else reason_of(request, begin, given_up)
        before_saving = {state.identity: state for state in stored}
        stored = _carried_out(plan, request, i, stored, existing)
        left = {state.identity for state in stored}
        lost += [(state.offset, state.owner) for name, state in before_saving.items() if name not in left]
        sizes = ((state.offset, state.size) for state in stored)
        yield outcome_of(plan, request, sizes, first=first, bound=bound, reason=reason)


def _nearest(session: Session, i: int, seen: list[int]) -> int | None:
    nearest = session.nearest(i)
    if nearest is None or nearest in seen:
        return nearest
    return max(seen, key=lambda j: (session.common(i, j), j), default=None)


def _seen_from(session: Session, i: int, stored: list[_State], branches: bool) -> dict[str, Existing]:
    """The stored states as prompt i sees them, by identity; of those on its path only one at each offset."""
    found: dict[str, Existing] = {}
    on_path: set[int] = set()
    ends: list[_State] = []
    for state in sorted(stored, key=lambda state: -state.offset):
        shared = min(state.offset, session.common(i, state.owner))
        branch = 0
        if shared == state.offset:
            if state.offset in on_path:
                continue
            on_path.add(state.offset)
        elif not branches:
            continue
        else:
            branch = next((b for b, end in enumerate(ends) if _same_line(session, state, end)), len(ends))
            if branch == len(ends):
                ends.append(state)
        found[state.identity] = Existing(
            state.offset, state.size, i - state.used, state.identity, shared, branch, state.returns
        )
    return found


def _same_line(session: Session, state: _State, end: _State) -> bool:
    """Whether the prompt of a later state begins with an earlier one's."""
    late, early = max(state.owner, end.owner), min(state.owner, end.owner)
    return late == early or state.offset <= session.common(late, early)


def _carried_out(
    plan: Plan, request: PlanRequest, i: int, stored: list[_State], existing: dict[str, Existing]
) -> list[_State]:
    begin = plan.restore.offset if plan.restore else 0
    gone = {eviction.identity for eviction in plan.evict}
    returns = {offset // request.block * request.block: number for offset, number in plan.returns.items()}
    kept = []
    for state in stored:
        if state.identity in existing and state.identity not in gone:
            on_path = not existing[state.identity].beside
            here = state._replace(used=i, returns=returns.get(state.offset, 0.0))
            kept.append(here if on_path else state)
    offsets = {state.offset for state in kept if not existing[state.identity].beside}
    for saved in plan.saves:
        offset = saved // request.block * request.block
        if offset > begin and offset not in offsets:
            kept.append(_State(offset, i, request.bytes_at(offset), i, returns.get(offset, 0.0)))
    return kept
