"""Many policies and budgets over one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, final

from planner.learning import Planner
from planner.optimum.foresight import Prompts, bounds_in_tree
from planner.optimum.offline import Bounds, Visit, upper_bound
from planner.request import PlanRequest
from planner.simulation.line import replay_line
from planner.simulation.outcome import Outcome, Totals, total
from planner.simulation.session import Session
from planner.simulation.tree import nearest_of, replay_tree

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


def least_in_a_tree(sessions: Sequence[Session], checkpoints: int, *, main: bool = False) -> Bounds:
    """The same on a memory that keeps branches, within bounds: those of `planner.optimum.foresight`."""
    lower = upper = 0
    for session in sessions:
        prompts, new = _as_tree(session, main)
        again = bounds_in_tree(prompts, checkpoints)
        lower, upper = lower + new + again.lower, upper + new + again.upper
    return Bounds(lower, upper)


def _as_tree(session: Session, main: bool) -> tuple[Prompts, int]:
    """A session's prompts, and the tokens of them that no earlier one had."""
    played = [i for i, prompt in enumerate(session.prompts) if prompt.main or not main]
    place = {i: n for n, i in enumerate(played)}
    lengths = [session.prompts[i].length for i in played]
    nearest = [nearest_of(session, i, played[:n]) for n, i in enumerate(played)]

    def common(n: int, earlier: int) -> int:
        return session.common(played[n], played[earlier])

    def free(n: int) -> bool:
        # This kind of trace counts a repetition as nothing.
        repeats = n > 0 and lengths[n - 1] == lengths[n] == common(n, n - 1)
        return session.least == 0 and repeats

    new = 0
    for n, (length, near) in enumerate(zip(lengths, nearest, strict=True)):
        shared = 0 if near is None else session.common(played[n], near)
        new += 0 if free(n) else max(1, length - shared)
    return Prompts(lengths, common, lambda n: None if (near := nearest[n]) is None else place[near], free), new
