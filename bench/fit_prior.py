"""Fit the weights of the planner's prior on one half of a trace.

    python bench/fit_prior.py TRACE [--half odd] [--minutes 30] [--checkpoints 8]

Coordinate search over `planner.expectation.weights.FITTED` and `LEARNED`: each weight in turn is doubled or halved,
later by less, and the change is kept if the score falls: excess over the bound in percent on a line, plus what long
replays, full resets and more than 1.15 saves a request count for. Starts from the weights that are there and prints
better ones. A few sessions hold most of the excess, so the score is noisy and the last digits mean nothing.
`FITTED_BRANCHES` has only two weights, tried by hand on the same half.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from planner import Budget, PlanRequest, learning
from planner.expectation import prior, weights
from planner.simulation import Session, read_blocks
from planner.simulation.sweep import sweep

Place = tuple[str, str, int | None]
"""A weight: the table, the field, and the index in it."""


def score(sessions: list[Session], checkpoints: int) -> float:
    """The less the better."""
    (result,) = sweep(sessions, [PlanRequest(1, budget=Budget(checkpoints))])
    totals = result.totals
    percent = 100 / max(1, totals.requests)
    dear = 0.7 * totals.replays_over_4096 * percent + 2 * totals.full_resets * percent
    return 100 * (totals.ratio - 1) + dear + 3 * max(0.0, totals.saves_per_request - 1.15)


def places(tables: dict[str, Any]) -> list[Place]:
    """Every weight of the tables but for whole numbers, which are limits."""
    found: list[Place] = []
    for name, table in tables.items():
        for field in fields(table):
            value = getattr(table, field.name)
            if isinstance(value, tuple):
                found += [(name, field.name, i) for i in range(len(value))]
            elif isinstance(value, float) and field.name != "generation_prompt":
                found.append((name, field.name, None))
    return found


def scaled(tables: dict[str, Any], place: Place, factor: float) -> dict[str, Any]:
    """The tables with one weight multiplied."""
    name, field, index = place
    value = getattr(tables[name], field)
    if index is None:
        changed: Any = value * factor
    else:
        changed = tuple(item * factor if i == index else item for i, item in enumerate(value))
    return {**tables, name: replace(tables[name], **{field: changed})}


def use(tables: dict[str, Any]) -> None:
    """Let the planner go by these tables."""
    prior.FITTED = tables["FITTED"]
    learning.LEARNED = tables["LEARNED"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--half", choices=("odd", "even"), default="odd")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--checkpoints", type=int, default=8)
    options = parser.parse_args()
    every = list(read_blocks(Path(options.trace).read_bytes(), options.trace))
    sessions = every[options.half == "even" :: 2]
    tables: dict[str, Any] = {"FITTED": weights.FITTED, "LEARNED": weights.LEARNED}
    best = score(sessions, options.checkpoints)
    sys.stderr.write(f"start {best:.4f}\n")
    end, steps, pick = time.monotonic() + 60 * options.minutes, dict.fromkeys(places(tables), 2.0), random.Random(1)
    while time.monotonic() < end:
        for place in pick.sample(list(steps), len(steps)):
            if time.monotonic() >= end:
                break
            for factor in (steps[place], 1 / steps[place]):
                tried = scaled(tables, place, factor)
                use(tried)
                found = score(sessions, options.checkpoints)
                if found < best - 1e-4:
                    best, tables = found, tried
                    sys.stderr.write(f"{best:.4f} {'.'.join(map(str, place))} x {factor:.2f}\n")
                    break
            else:
                steps[place] = 1 + (steps[place] - 1) * 0.6
    for name, table in tables.items():
        sys.stdout.write(f"{name} = {table}\n")


if __name__ == "__main__":
    main()
