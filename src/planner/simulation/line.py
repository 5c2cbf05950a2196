"""Replay on a memory that is a line: one slot, one conversation at a time.

A request restores the largest checkpoint that is not past the prefix it shares with the request before it;
checkpoints past that prefix are lost. The tip, the state at the end of that request's prompt, serves a prompt that
extends it; answers are not credited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.learning import Divergence, Planner
from planner.offsets import Existing
from planner.outcome import Plan
from planner.request import PlanRequest
from planner.simulation.outcome import Outcome, outcome_of, reason_of
from planner.simulation.session import Session


def replay_line(session: Session, base: PlanRequest, planner: Planner, *, main: bool = True) -> Iterator[Outcome]:
    """What each prompt costs. `base` has policy, budget, costs and so on; `planner` makes the plans, and learns.

    `main`: leave the prompts of sub-agents out.
    """
    stored: dict[int, Existing] = {}
    lost: set[int] = set()
    before: int | None = None
    for i, prompt in enumerate(session.prompts):
        if main and not prompt.main:
            continue
        first = before is None
        length, shared = (0, 0) if before is None else (session.prompts[before].length, session.common(i, before))
        before = i
        bound = max(session.least, prompt.length - shared)
        if bound == 0:
            # The tip holds all of it, and this kind of trace counts a repetition as nothing.
            kept, size = tuple(sorted(stored)), sum(existing.bytes for existing in stored.values())
            yield Outcome(first, prompt.length, 0, 0, shared, shared, 0, 0, None, kept, size)
            continue
        if not first and shared < length:
            planner.observe(Divergence.of(shared, length, prompt.candidates, session=session.name, tools=prompt.tools))
        request = replace(
            base,
            prompt_tokens=prompt.length,
            candidates=prompt.candidates,
            likely=prompt.likely,
            common_prefix=shared,
            live=length or None,
            existing=tuple(stored.values()),
            block=session.block,
        )
        plan = planner.plan(request, session=session.name, tools=prompt.tools)
        begin = plan.restore.offset if plan.restore else 0
        live = plan.restore is not None and plan.restore.source == "live"
        lost = {offset for offset in lost if offset <= shared}
        reason = None if first or live else reason_of(request, begin, lost)
        lost |= {eviction.offset for eviction in plan.evict if eviction.offset <= shared}
        stored = _carried_out(plan, request, stored)
        lost -= stored.keys()
        sizes = ((existing.offset, existing.bytes) for existing in stored.values())
        yield outcome_of(plan, request, sizes, first=first, bound=bound, reason=reason)


def _carried_out(plan: Plan, request: PlanRequest, stored: dict[int, Existing]) -> dict[int, Existing]:
    """What is stored once the plan has run, each a request older.

    A state inside a block counts as one at the block's beginning, if that was evaluated: no more is known to be shared.
    """
    begin = plan.restore.offset if plan.restore else 0
    kept = {offset: replace(stored[offset], age=stored[offset].age + 1) for offset in plan.kept if offset in stored}
    for saved in plan.saves:
        offset = saved // request.block * request.block
        if offset > begin or offset == saved:
            kept[offset] = Existing(offset, request.bytes_at(offset), 1)
    return kept
