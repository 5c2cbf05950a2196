"""What planning costs: choosing checkpoints on a line and in a tree, and whole plans.

usage: python bench/planner_speed.py [--rounds N] [--json]

Times are CPU milliseconds, the least of all rounds: what the code needs when the machine leaves it alone. Beside each
choice on a line stands the textbook programme over all numbers of checkpoints, in the same round, and that both cost
the same is asserted.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planner import Budget, Candidate, Costs, Existing, PlanRequest, compare, plan, write_plan
from planner.expectation.prior import Atom, Prior
from planner.optimum.selection import Point, select
from planner.optimum.tree import Node, select_tree

LINES = ((200, 8), (2000, 32), (2000, 256))
BYTES = ((200, 8), (2000, 8))
TREES = ((100, 8), (200, 32), (2000, 32))
PLANS = ((20, 8), (200, 8), (2000, 32))


def a_line(count: int, seed: int) -> tuple[list[Point], Prior]:
    pick = random.Random(seed)
    prior = Prior(200_000, [Atom(pick.randrange(200_000), pick.random()) for _ in range(20)], 2.0)
    offsets = sorted(pick.sample(range(1, 200_000), count))
    return [Point(offset, pick.choice([0.0, 5.0]), 60_000_000 + 700 * offset) for offset in offsets], prior


def a_tree(count: int, seed: int) -> list[Node]:
    """A conversation and five others that left it somewhere."""
    pick = random.Random(seed)
    nodes: list[Node] = []
    for branch in range(6):
        at = pick.randrange(len(nodes)) if nodes else -1
        offset = nodes[at].offset if nodes else 0
        for _ in range(count // 2 if branch == 0 else count // 10):
            offset += pick.randint(50, 3000)
            nodes.append(Node(at, offset, pick.random() ** 4, pick.choice([0.0, 0.5])))
            at = len(nodes) - 1
    return nodes


def a_request(messages: int, count: int, seed: int) -> PlanRequest:
    """The next prompt of an agent's conversation whose states are all in use."""
    pick = random.Random(seed)
    candidates = [Candidate(9000, "system_end")]
    for i in range(messages):
        kind: Any = ("tool_start", "assistant_start", "user_start")[2 * (i % 20 == 0) or i % 2]
        candidates.append(Candidate(candidates[-1].offset + pick.randint(40, 1500), kind))
    common = candidates[-3].offset
    stored = [candidate.offset for candidate in candidates if candidate.offset <= common]
    return PlanRequest(
        candidates[-1].offset + 4,
        (*candidates[:-1], Candidate(candidates[-1].offset, "generation_prompt")),
        common_prefix=common,
        existing=tuple(Existing(offset, age=1) for offset in pick.sample(stored, min(count, len(stored)))),
        budget=Budget(count),
    )


def textbook(points: Sequence[Point], prior: Prior, count: int) -> float:
    """The least cost by the programme over all numbers of checkpoints, with the convex hull trick: O(N M)."""
    mass, moment = prior.below(prior.length + 1)
    masses = [prior.below(point.offset)[0] for point in points]
    # For each point: what the cheapest set that ends there saves. First none: the start, a line of slope 0.
    row = [(0.0, 0.0)]
    rows: list[list[float]] = []
    for level in range(count):
        hull: list[tuple[float, float]] = list(row) if level == 0 else []
        first, reached = 0, []
        for i, (point, at) in enumerate(zip(points, masses, strict=True)):
            value = float("inf")
            if hull:
                while first + 1 < len(hull) and _value(hull[first + 1], at) < _value(hull[first], at):
                    first += 1
                value = _value(hull[first], at) + point.price
            reached.append(value)
            if level and rows[-1][i] < float("inf"):
                line = (-float(point.offset), rows[-1][i] + point.offset * at)
                while len(hull) - first >= 2 and _above(hull[-2], hull[-1], line):
                    hull.pop()
                hull.append(line)
        rows.append(reached)
    ends = [
        value - point.offset * (mass - at)
        for reached in rows
        for value, point, at in zip(reached, points, masses, strict=True)
    ]
    return moment + min(0.0, *ends)


def _value(line: tuple[float, float], x: float) -> float:
    return line[0] * x + line[1]


def _above(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    return (right[1] - left[1]) * (left[0] - middle[0]) <= (middle[1] - left[1]) * (left[0] - right[0])


def cost_of(chosen: Sequence[int], points: Sequence[Point], prior: Prior) -> float:
    prices = {point.offset: point.price for point in points}
    return prior.replay(chosen) + sum(prices[offset] for offset in chosen)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return 1000 * (time.process_time() - start), result


def least(work: Iterable[Callable[[], Any]]) -> float:
    return min(timed(one)[0] for one in work)


def measure(rounds: int) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []

    def add(what: str, n: int, k: int, took: float, **others: float) -> None:
        results.append({"what": what, "offsets": n, "checkpoints": k, "ms": took, **others})

    seeds = range(rounds)
    for n, k in LINES:
        ours, theirs = [], []
        for points, prior in (a_line(n, seed) for seed in seeds):
            took, chosen = timed(partial(select, points, prior, Budget(k)))
            other, best = timed(partial(textbook, points, prior, k))
            assert math.isclose(cost_of(chosen, points, prior), best, rel_tol=1e-9)
            ours.append(took)
            theirs.append(other)
        add("line", n, k, min(ours), textbook_ms=min(theirs))
    for n, k in BYTES:
        budget = Budget(bytes=k * 120_000_000)
        add("line, sizes by length", n, k, least([partial(select, *a_line(n, seed), budget) for seed in seeds]))
    for n, k in TREES:
        add("tree", n, k, least([partial(select_tree, a_tree(n, seed), Budget(k)) for seed in seeds]))
    for n, k in PLANS:
        requests = [a_request(n, k, seed) for seed in seeds]
        add("plan", n, k, least([partial(plan, request) for request in requests]))
        add("plan, with all others", n, k, least([partial(in_full, request) for request in requests]))
    slow = replace(a_request(200, 8, 1), timeout=90.0, costs=Costs(0.01))
    add("plan, timeout", 200, 8, least([partial(plan, slow) for _ in seeds]))
    return results


def in_full(request: PlanRequest) -> str:
    """With the optimum and every other policy for comparison."""
    return write_plan(made := plan(request), compare(request, made))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = measure(options.rounds)
    if options.json:
        json.dump(results, sys.stdout, indent=1)
        return
    lines = [f"{'':<24}{'offsets':>8}{'checkpoints':>13}{'ms':>9}{'textbook ms':>13}"]
    for row in results:
        other = f"{row['textbook_ms']:>13.2f}" if "textbook_ms" in row else ""
        lines.append(f"{row['what']:<24}{row['offsets']:>8}{row['checkpoints']:>13}{row['ms']:>9.2f}{other}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
