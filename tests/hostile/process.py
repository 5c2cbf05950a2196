"""A process that renders every hostile template and reports what became of each, and how much memory it took.

usage: python -m tests.hostile.process plain|marked
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.hostile.templates import LIMITED

from spanparse import Limits, Request, SpanparseError, render_plain
from spanparse.rendering.render import render_marked

LIMITS = Limits(seconds=0.3, characters=2_000_000, memory=48 << 20)
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "hello there " * 20},
    {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, {"b": 2}]}}}],
    },
]

RENDERS: dict[str, Callable[[str], str]] = {
    "plain": lambda template: render_plain(template, Request(MESSAGES), limits=LIMITS),
    "marked": lambda template: render_marked(template, Request(MESSAGES), limits=LIMITS),
}


class Outcome(NamedTuple):
    """What became of a template: the error's class and text, and the process's peak memory so far in MB."""

    kind: str
    text: str
    megabytes: float


def peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)


def outcome_of(render: Callable[[str], str], template: str, before: float) -> Outcome:
    try:
        text = render(template)
    except SpanparseError as error:
        return Outcome(type(error).__name__, str(error), peak() - before)
    # Whatever else a template makes Python raise is what the tests are there to see.
    except BaseException as error:  # noqa: BLE001
        return Outcome(f"escaped {type(error).__name__}", str(error)[:200], peak() - before)
    return Outcome("rendered", f"{len(text)} characters", peak() - before)


def report(render: str) -> None:
    """What the process does: an outcome a line, so that the last one tells how far it came."""
    before = peak()
    for name, template in LIMITED.items():
        sys.stdout.write(json.dumps([name, outcome_of(RENDERS[render], template, before)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    report(sys.argv[1])
