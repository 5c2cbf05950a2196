"""From a trace and the sizes of a model: how many checkpoints pay, and what llama.cpp's own flags could do.

llama.cpp's server (b11549, here the policy `barriers`) has two: `--ctx-checkpoints` (32) and `--checkpoint-min-step`
(8192). Both are tried over a grid, and `adaptive` over the same numbers of checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from planner.budget import Budget
from planner.learning import Planner
from planner.request import PlanRequest
from planner.simulation.outcome import LONG_REPLAY, Outcome, Totals
from planner.simulation.session import Session
from planner.simulation.sweep import Model, Result, replay, sweep

CHECKPOINTS = (1, 2, 4, 8, 16, 32)
MIN_STEPS = (0, 1024, 8192, 32768)
LLAMA_CPP = (32, 8192)
"""llama.cpp's defaults: checkpoints, and tokens between them."""

_ENOUGH = 1.005
"""A budget is enough if no larger one takes less than this part of its time."""


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """Where the best flags of llama.cpp replay more than 4,096 tokens, and why no flag helps there.

    Counts of prompts: parted inside the tools or the system text, where it saves nothing before the first user message;
    nearer to the end than that, but where its list holds no older state any more, or none between two user messages.
    """

    inside_start: int
    at_start: int
    later: int


@final
@dataclass(frozen=True, slots=True)
class Advice:
    """What to set, and what it is worth; seconds under the cost model.

    checkpoints: the smallest number that is enough for `adaptive`; bytes: what they take, None if sizes are unknown.
    default, flags: llama.cpp's with its default flags, and with the best ones. budgets: `adaptive` for each number.
    """

    checkpoints: int
    bytes: int | None
    adaptive: Totals
    default: Totals
    flags: tuple[int, int]
    best: Totals
    budgets: tuple[tuple[int, Totals], ...]
    limits: Limits


def runs(base: PlanRequest) -> list[PlanRequest]:
    """What `advise` has to replay, so that its progress can be told."""
    llama = replace(base, policy="barriers")
    flagged = [
        replace(llama, budget=Budget(count, base.budget.bytes), min_step=step)
        for count in CHECKPOINTS
        for step in MIN_STEPS
    ]
    ours = [replace(base, policy="adaptive", budget=Budget(count, base.budget.bytes)) for count in CHECKPOINTS]
    return [*ours, *flagged]


def advise(
    sessions: Sequence[Session],
    base: PlanRequest,
    model: Model = "line",
    *,
    advance: Callable[[PlanRequest], None] | None = None,
) -> Advice:
    """Replay the grid and pick. `base` has costs and, for budgets in bytes, the size of a checkpoint."""
    results = list(sweep(sessions, runs(base), model, advance=advance))
    ours, flagged = results[: len(CHECKPOINTS)], results[len(CHECKPOINTS) :]
    least = min(result.totals.seconds for result in ours)
    enough = next(result for result in ours if result.totals.seconds <= _ENOUGH * least)
    best = min(flagged, key=_seconds)
    default = next(result for result in flagged if _flags(result.base) == LLAMA_CPP)
    count = enough.base.budget.checkpoints or 0
    return Advice(
        checkpoints=count,
        bytes=enough.totals.bytes,
        adaptive=enough.totals,
        default=default.totals,
        flags=_flags(best.base),
        best=best.totals,
        budgets=tuple((result.base.budget.checkpoints or 0, result.totals) for result in ours),
        limits=_limits(sessions, best.base, model),
    )


def _seconds(result: Result) -> float:
    return result.totals.seconds


def _flags(base: PlanRequest) -> tuple[int, int]:
    return base.budget.checkpoints or 0, base.min_step


def _limits(sessions: Sequence[Session], base: PlanRequest, model: Model) -> Limits:
    inside = start = later = 0
    planner = Planner()
    for session in sessions:
        # The outcomes are of the prompts that the model looks at: on a line those of the main agent.
        prompts = [prompt for prompt in session.prompts if prompt.main or model == "tree"]
        outcomes: Iterator[Outcome] = replay(session, base, planner, model, main=model == "line")
        for prompt, outcome in zip(prompts, outcomes, strict=True):
            if outcome.replay <= LONG_REPLAY:
                continue
            end = max((c.offset for c in prompt.candidates if c.kind == "system_end"), default=0)
            inside += outcome.shared < end
            start += outcome.shared == end > 0
            later += outcome.shared > end
    return Limits(inside, start, later)
