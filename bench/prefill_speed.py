"""What checkpoints cost a cold prefill: the same prompt with and without them, in interleaved pairs.

usage: python bench/prefill_speed.py [--pairs N] [--tokens N] [--width N] [--kind KIND] [--threads N] [--json]

A conversation of about 16,000 tokens is evaluated from nothing by two engines on one hybrid model, wide enough for
about 1,000 tokens a second, one with eight checkpoints and one with none. The two take turns at being first. `slower`
is the median over the pairs of how much longer the prefill took with checkpoints, breaks and saves included; its
interval (95 %) is by bootstrap. Seconds are of processor time, which a busy machine stretches less than elapsed time.
`save` is the share of the prefill that copying states took, which is known exactly.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime import Engine, Report, Request
from runtime.tiny import ensure_model

AGENT = Path(__file__).parents[1] / "fixtures" / "conversations" / "agent.json"
RESAMPLES = 10_000


@dataclass(frozen=True)
class Run:
    """One cold prefill: processor seconds of prefill and saves, and what the engine reports."""

    seconds: float
    report: Report


def conversation(engine: Engine, tokens: int) -> Request:
    """The agent's conversation, its rounds repeated until the prompt has at least that many tokens."""
    body = json.loads(AGENT.read_text(encoding="utf-8"))
    first, rounds = body["messages"][:1], body["messages"][1:]

    def of(times: int) -> Request:
        return Request(first + rounds * times, tools=body["tools"], max_tokens=0)

    one, two = (engine.generate(of(times)).report.prompt_tokens for times in (1, 2))
    engine.reset()
    return of(1 + max(0, -(-(tokens - one) // (two - one))))


def cold(engine: Engine, request: Request) -> Run:
    engine.reset()
    start = time.process_time()
    report = engine.generate(request).report
    used, phases = time.process_time() - start, report.seconds
    # What is not evaluation (rendering, tokens, the plan) runs on one thread and waits for nothing.
    return Run(used - phases.render - phases.tokenize - phases.plan, report)


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval."""
    sample = np.array(values)
    medians = np.median(np.random.default_rng(0).choice(sample, (RESAMPLES, sample.size)), axis=1)
    low, high = np.quantile(medians, (0.025, 0.975))
    return float(np.median(sample)), float(low), float(high)


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    path = ensure_model(arguments.kind, width=arguments.width)
    options: dict[str, Any] = {"n_ctx": 2 * arguments.tokens, "n_threads": arguments.threads, "checkpoints": 8}
    with Engine(path, **options) as kept, Engine(path, policy="none", **options) as plain:
        request = conversation(plain, arguments.tokens)
        pairs: list[tuple[Run, Run]] = []
        for number in range(arguments.pairs):
            engines = (kept, plain) if number % 2 else (plain, kept)
            runs = {engine.policy: cold(engine, request) for engine in engines}
            pairs.append((runs["adaptive"], runs["none"]))
            if not arguments.json:
                sys.stderr.write(f"\r{number + 1} of {arguments.pairs} pairs")
    slower, low, high = interval([with_.seconds / without.seconds - 1 for with_, without in pairs])
    report = pairs[0][0].report
    return {
        "kind": arguments.kind,
        "width": arguments.width,
        "prompt_tokens": report.prompt_tokens,
        "tokens_per_second": report.prompt_tokens / float(np.median([without.seconds for _, without in pairs])),
        "breaks": report.breaks,
        "saves": report.saves,
        "pairs": arguments.pairs,
        "slower": slower,
        "slower_interval": [low, high],
        "save": float(np.median([w.report.seconds.save / w.report.seconds.prefill for w, _ in pairs])),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=16_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--kind", default="hybrid")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measured(arguments)
    if arguments.json:
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
        return 0
    low, high = result["slower_interval"]
    sys.stdout.write(
        f"\r{result['kind']} {result['width']} wide, {result['prompt_tokens']} tokens at "
        f"{result['tokens_per_second']:.0f} a second, {result['breaks']} breaks, {result['saves']} saves:\n"
        f"with checkpoints {result['slower']:+.2%} ({low:+.2%} to {high:+.2%}), saves {result['save']:.3%} of prefill\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
