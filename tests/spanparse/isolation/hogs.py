"""Functions that worker processes are given in the place of a render: what a template would do if no bound held it."""

from __future__ import annotations

import os
import signal
from typing import Any

from spanparse import Limits


def spin(*, name: str, limits: Limits) -> None:
    """Never come back to the interpreter."""
    half = "a" * 2_000_000
    (half + "b" + half).startswith((half + "c" + half,) * 5_000_000)


def fill(*, name: str, limits: Limits) -> int:
    """Take memory until there is none; survives that there is none."""
    held = []
    size = 0
    try:
        while size < 1 << 32:
            held.append(bytearray(1 << 20))
            size += 1 << 20
    except MemoryError:
        held.clear()
    return size


def end(number: int, *, name: str, limits: Limits) -> None:
    """Die of a signal."""
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)


def leave(*, name: str, limits: Limits) -> None:
    """End without an answer."""
    os._exit(3)


def process(*, name: str, limits: Limits) -> int:
    """Which process this is."""
    return os.getpid()


def give(value: Any, *, name: str, limits: Limits) -> Any:
    """What it is given."""
    return value
