"""Many policies and budgets over one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, final

from planner.expectation.learning import Planner
from planner.optimum.offline import Visit, upper_bound
from planner.request import PlanRequest
from planner.simulation.line import replay_line
from planner.simulation.outcome import Outcome, Totals, total
from planner.simulation.session import Session
from planner.simulation.tree import replay_tree

Model = Literal["line", "tree"]
"""What the memory is: one conversation at a time, or one that keeps branches."""


@final
class Result(NamedTuple):
    """What one plan request's policy, budget and costs give over a whole trace."""

    base: PlanRequest
    totals: Totals


def replay(session: Session, base: PlanRequest, planner: Planner, model: Model, *, main: bool) -> Iterator[Outcome]:
    """A session on that kind of memory; `main`: without the prompts of sub-agents."""
    play = replay_line if model == "line" else replay_tree
    return play(session, base, planner, main=main)


def sweep(
    sessions: Sequence[Session],
    bases: Sequence[PlanRequest],
    model: Model = "line",
    *,
    main: bool | None = None,
    advance: Callable[[PlanRequest], None] | None = None,
) -> Iterator[Result]:
    """Each of `bases` over all sessions in their order; what one session teaches serves those after it.

    `main`: without sub-agents, by default on a line only. `advance` is told before each session which base it is for.
    """
    alone = model == "line" if main is None else main
    for base in bases:
        planner = Planner()

        def outcomes(base: PlanRequest = base, planner: Planner = planner) -> Iterator[Outcome]:
            for session in sessions:
                if advance is not None:
                    advance(base)
                yield from replay(session, base, planner, model, main=alone)

        yield Result(base, total(outcomes(), base.costs, sized=base.state_bytes != 0))


def least_on_a_line(sessions: Sequence[Session], checkpoints: int, *, main: bool = True) -> int:
    """Tokens that would do on a line for anyone who knew the future.

    That is the upper bound of `planner.optimum.offline`, and the new tokens of each prompt.
    """
    evaluated = 0
    for session in sessions:
        visits: list[Visit] = []
        before: int | None = None
        for i, prompt in enumerate(session.prompts):
            if main and not prompt.main:
                continue
            shared = 0 if before is None else session.common(i, before)
            before = i
            evaluated += max(session.least, prompt.length - shared)
            if session.least or prompt.length > shared:
                visits.append(Visit(prompt.length, shared))
        evaluated += upper_bound(visits, checkpoints)
    return evaluated
