"""A process that renders templates, each in a copy of itself, and reports what every one took.

usage: python -m tests.hostile.measure SEED FIRST LAST

Prints a line of JSON for each template and render: its number, `plain` or `marked`, what became of it, the processor
time in seconds, and by how many bytes the process grew at its peak.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from random import Random
from typing import NamedTuple

from tests.hostile.grammar import Grammar

from spanparse import Limits, Request, SpanparseError, render_plain
from spanparse.rendering.render import render_marked

LIMITS = Limits(seconds=0.5, memory=64 << 20)
MESSAGES = [{"role": "user", "content": "hello <there>, é "}, {"role": "assistant", "content": "x"}]
RENDERS = {"plain": render_plain, "marked": render_marked}
# What ends a copy that the limits do not hold, so that it is a failure and not the end of the machine.
_MOST_SECONDS = 6.0
_MOST_BYTES = 3 << 30


class Taken(NamedTuple):
    """What became of a template: an error's class, `rendered`, or how its process ended; and what it took."""

    number: int
    render: str
    outcome: str
    seconds: float
    bytes: int


def template(seed: int, number: int) -> str:
    """The template of that number: the same whatever others there are."""
    return Grammar(Random(f"{seed} {number}")).template()


def measure(seed: int, number: int, render: str) -> Taken:
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        os.write(writing, _outcome(template(seed, number), render).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        outcome = answer.read()
    _, status, used = os.wait4(process, 0)
    if status:
        outcome = f"died: {os.waitstatus_to_exitcode(status)}"
    before, _, outcome = outcome.rpartition("|")
    grown = max(0, (used.ru_maxrss << 10) - int(before or 0))
    return Taken(number, render, outcome, used.ru_utime + used.ru_stime, grown)


def _outcome(text: str, render: str) -> str:
    signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, resource.RLIM_INFINITY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    try:
        RENDERS[render](text, Request(MESSAGES), limits=LIMITS)
        outcome = "rendered"
    except SpanparseError as error:
        outcome = type(error).__name__
    except BaseException as error:  # noqa: BLE001 - whatever else Python raises is what the test is there to see
        outcome = f"escaped {type(error).__name__}: {error}"[:200]
    return f"{before}|{outcome}"


def main(seed: int, first: int, last: int) -> None:
    """What the process does."""
    # On a machine that does other things too, the clock would run out before a template has done its worst.
    time.monotonic = time.process_time
    for render in RENDERS.values():
        render("{{ messages }}", Request(MESSAGES))
    for number in range(first, last):
        for render in RENDERS:
            sys.stdout.write(json.dumps(measure(seed, number, render)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
