"""Replay on a memory that keeps branches: checkpoints survive when a prompt goes on differently.

A request may share its beginning with any earlier request of its session, sub-agents' included, and restores the
largest checkpoint on its own path. The budget is for the session. The tip, the state at the end of the most recent
request's prompt, serves a prompt that extends it and counts for nothing; answers are not credited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.learning import Divergence, Planner
from planner.policies.registry import REGISTRY
from planner.request import PlanRequest
from planner.simulation.outcome import Outcome, outcome_of, reason_of
from planner.simulation.session import Session
from planner.states import States


def replay_tree(session: Session, base: PlanRequest, planner: Planner, *, main: bool = False) -> Iterator[Outcome]:
    """What each prompt costs; the arguments are those of `replay_line`."""
    states = States(session.common)
    seen: list[int] = []
    for i, prompt in enumerate(session.prompts):
        if main and not prompt.main:
            continue
        nearest = nearest_of(session, i, seen)
        shared = 0 if nearest is None else session.common(i, nearest)
        before = seen[-1] if seen else None
        tip = 0 if before is None else session.prompts[before].length
        live = tip if before is not None and session.common(i, before) == tip else None
        first = before is None
        seen.append(i)
        bound = max(session.least, prompt.length - shared)
        if bound == 0 and live == prompt.length:
            kept = tuple(sorted(state.offset for state in states))
            yield Outcome(first, prompt.length, 0, 0, shared, shared, 0, 0, None, kept, states.bytes)
            continue
        if nearest is not None and shared < session.prompts[nearest].length:
            length = session.prompts[nearest].length
            planner.observe(Divergence.of(shared, length, prompt.candidates, session=session.name, tools=prompt.tools))
        existing = states.seen_from(i, branches=REGISTRY[base.policy].knows_branches)
        request = replace(
            base,
            prompt_tokens=prompt.length,
            candidates=prompt.candidates,
            likely=prompt.likely,
            common_prefix=shared,
            live=live,
            existing=tuple(existing.values()),
            block=session.block,
        )
        plan = planner.plan(request, session=session.name, tools=prompt.tools)
        begin = plan.restore.offset if plan.restore else 0
        went_on = plan.restore is not None and plan.restore.source == "live"
        reason = None if first or went_on else reason_of(request, begin, states.lost(i))
        states.carry_out(plan, request, i, existing)
        sizes = ((state.offset, state.size) for state in states)
        yield outcome_of(plan, request, sizes, first=first, bound=bound, reason=reason)


def nearest_of(session: Session, i: int, seen: Sequence[int]) -> int | None:
    """Which of the prompts `seen` shares most with prompt i, None if there are none."""
    nearest = session.nearest(i)
    if nearest is None or nearest in seen:
        return nearest
    return max(seen, key=lambda j: (session.common(i, j), j), default=None)
