"""What a render may use, and how much of it a render has used.

A template comes out of a downloaded file. It runs inside Python, where nothing can stop an operation half-way; so each
operation's result is bounded before the operation (`costs`, `operations`), and this module counts what comes out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final, TypeVar, final

_T = TypeVar("_T")

SMALL: Final = 60
"""Characters up to which a text is not counted, nor a list of as many bytes: CPython's allocator counts them."""

BIG: Final = 1 << 14
"""Characters from which looking through a text counts as work."""

MAX_BITS: Final = 1 << 16
"""Largest integer that arithmetic accepts; some of its operations take the square of this."""

RUN_BYTES: Final = 96
"""Memory of one run of a marked text."""

# Bytes of a character, if one of the text's lies beyond U+FFFF.
_WIDEST: Final = 4
_CONTAINERS: Final[frozenset[Any]] = frozenset({list, tuple, dict, set, bytes})
_STEPS_A_LOOK: Final = 256
# A long template does more in a step: characters times steps between two looks.
_LENGTH_A_LOOK: Final = 1 << 20
_LEAST_STEPS: Final = 4
# Counting small objects takes some microseconds.
_LOOKS_A_COUNT: Final = 8
_WORK_A_LOOK: Final = 1 << 22
# Nanoseconds from which an operation is held against the time that is left.
_LONG: Final = 1 << 24
# What a small object takes on average: a short string, a tuple, a dict of a few keys.
_BLOCK_BYTES: Final = 80
_MOST_ITEM_BYTES: Final = 64
_SLACK: Final = 1 << 23
_FIRST_SWEEP: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Limits:
    """What a render may use before it is cut off; the error names the field that would give it more.

    `seconds` of time; `characters` in the prompt and in any text made on the way to it; `steps`, which are loop
    iterations and macro calls; `memory`, the bytes of all values that the template has made and still holds. That is
    an estimate: while a value is made of others, up to three times as much is taken. The time is looked at between
    operations; one that is estimated not to be done in time is not begun. The estimates are for an ordinary machine, so
    on a slow one a render may overrun by its last operation.
    """

    seconds: float = 30.0
    characters: int = 64_000_000
    steps: int = 50_000_000
    memory: int = 512 << 20
    until: float | None = None
    """End of `seconds` on the clock of `time.monotonic`, once they have started; see `started`."""

    isolate: bool = False
    """Compile and render in a worker process, within limits of the operating system's that no template escapes.

    It can allocate 2.5 times `memory`, may use 1.5 times `seconds` of processor time, and is waited for 1.9 times
    `seconds`; one that goes beyond dies alone, and the error is a `TemplateLimit`. docs/inspect.md says what bringing
    a result back costs. Messages, tools and kwargs must be plain data. Elsewhere than on Linux a `SpanparseError` says
    that there are no such limits.
    """

    def started(self) -> Limits:
        """The same limits with the time running from now, for several renders that share it."""
        if self.until is not None:
            return self
        if self.isolate:
            from spanparse.isolation import ready

            ready()
        return replace(self, until=time.monotonic() + self.seconds)


class LimitReached(Exception):
    """A render ran past its limits."""


@final
class Meter:
    """What one render has used of its limits. Every method raises `LimitReached` when a limit is passed."""

    __slots__ = (
        "_blocks",
        "_deadline",
        "_held",
        "_held_bytes",
        "_looks",
        "_most_out",
        "_next_sweep",
        "_out",
        "_slack",
        "_stretch",
        "_work",
        "limits",
    )

    def __init__(self, limits: Limits, out: Sequence[object] = (), each: int = 1, length: int = 0) -> None:
        """`out` is what the render puts out: it grows, and takes `each` bytes for an item in the end.

        `length`: characters of the template.
        """
        self.limits = limits
        self._out = out
        self._most_out = limits.memory // each
        deadline = limits.started().until
        assert deadline is not None
        self._deadline = deadline
        self._stretch = max(_LEAST_STEPS, min(_STEPS_A_LOOK, _LENGTH_A_LOOK // max(1, length)))
        self._looks = 0
        self._work = 0
        self._blocks = sys.getallocatedblocks()
        # The first few values go uncounted, as though they were held to the end: most renders make no more.
        self._slack = min(_SLACK, limits.characters, limits.memory >> 4)
        self._held: dict[int, Any] = {}
        self._held_bytes = 0
        self._next_sweep = min(_FIRST_SWEEP, limits.memory)

    def stretches(self) -> Iterator[Iterator[None]]:
        """The loop iterations and macro calls that a render may go through, in stretches between looks at the clock."""
        steps = self.limits.steps
        while steps:
            stretch = min(self._stretch, steps)
            yield repeat(None, stretch)
            steps -= stretch
            self._look()
        raise LimitReached(f"still rendering after {self.limits.steps:,} steps (Limits.steps)")

    def charge(self, work: int) -> None:
        """Count characters or items that an operation goes through; look at the clock now and then."""
        self._work += work
        if self._work > _WORK_A_LOOK:
            self._look()

    def afford(self, count: int, nanoseconds: int) -> None:
        """An operation is about to go through so many characters or items, each of which takes about so long."""
        total = count * nanoseconds
        if total > _LONG and time.monotonic() + total * 1e-9 > self._deadline:
            raise LimitReached(f"is about to take longer than {self.limits.seconds:g} s in all (Limits.seconds)")
        self.charge(total)

    def _look(self) -> None:
        limits = self.limits
        if time.monotonic() > self._deadline:
            raise LimitReached(f"still rendering after {limits.seconds:g} s (Limits.seconds)")
        if len(self._out) > self._most_out:
            self._out_of_memory()
        self._looks += 1
        if self._work < _WORK_A_LOOK and self._looks % _LOOKS_A_COUNT:
            return
        self._work = 0
        if self._small_bytes() + self._held_bytes > limits.memory:
            self._sweep()
            if self._small_bytes() + self._held_bytes > limits.memory:
                self._out_of_memory()

    def _small_bytes(self) -> int:
        return (sys.getallocatedblocks() - self._blocks) * _BLOCK_BYTES

    def expect(self, characters: int, growth: int = 1) -> None:
        """An operation is about to make a text of so many characters, each of which may become `growth` of them."""
        self._check_length(characters)
        if characters * growth * _WIDEST > self.limits.memory:
            self._out_of_memory()
        if characters > BIG:
            self.charge(characters)

    def _check_length(self, characters: int) -> None:
        if characters > self.limits.characters:
            raise LimitReached(f"makes a text longer than {self.limits.characters:,} characters (Limits.characters)")

    def expect_items(self, count: int, each: int = 8) -> None:
        """An operation is about to make a list of so many items of `each` bytes."""
        if count * each > self.limits.memory:
            self._out_of_memory()
        if count > BIG:
            self.charge(count * each >> 4)

    def keep(self, value: _T) -> _T:
        """`value`, which the template has just made and may hold; counted until nothing else refers to it."""
        kind = type(value)
        if kind is str:
            size = len(value)  # type: ignore[arg-type]
        elif kind in _CONTAINERS:
            size = len(value) << 4  # type: ignore[arg-type]
        elif isinstance(value, str):
            # A marked text takes time and memory for its runs.
            size = len(value) + (len(getattr(value, "_pieces", ())) << 4)
        elif kind is int:
            size = value.bit_length() >> 3  # type: ignore[attr-defined]
        else:
            return value
        if size > SMALL:
            self._work += size
            if self._work > _WORK_A_LOOK:
                self._look()
            if size > self._slack:
                self._hold(value)
            else:
                self._slack -= size
        return value

    def _hold(self, value: Any) -> None:
        size = _bytes_of(value)
        if isinstance(value, str):
            self._check_length(len(value))
        if id(value) in self._held:
            return
        # The reference keeps the id from being used again.
        self._held[id(value)] = value
        self._held_bytes += size
        self.charge(size)
        if self._held_bytes > self._next_sweep:
            self._sweep()
            if self._held_bytes > self.limits.memory:
                self._out_of_memory()
            self._next_sweep = min(2 * self._held_bytes + _FIRST_SWEEP, self.limits.memory)

    def _sweep(self) -> None:
        """Forget values that nothing but this meter refers to."""
        kept: dict[int, Any] = {}
        size = 0
        held = self._held
        # The newest first: a container goes before what it holds.
        while held:
            key, value = held.popitem()
            # One for `value`, one for the argument.
            if sys.getrefcount(value) > 2:
                kept[key] = value
                size += _bytes_of(value)
        self._held = dict(reversed(kept.items()))
        self._held_bytes = size

    def _out_of_memory(self) -> None:
        raise LimitReached(f"holds more than {self.limits.memory:,} bytes of memory (Limits.memory)")


def _bytes_of(value: Any) -> int:
    size = sys.getsizeof(value) + len(getattr(value, "_pieces", ())) * RUN_BYTES
    if value and type(value) in (list, tuple):
        # Its items are small mostly, and of a kind.
        size += len(value) * min(sys.getsizeof(value[0]), _MOST_ITEM_BYTES)
    return size
