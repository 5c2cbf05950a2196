"""What a render is doing at this moment: whose text the template is writing, and how much of its limits is used."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, final

from spanparse.marked import Marked
from spanparse.origin import GENERATION, NOWHERE, Origin
from spanparse.tracked import origin_of


@dataclass(frozen=True, slots=True)
class Limits:
    """What a render may use before it is cut off: a template comes out of a downloaded file."""

    seconds: float = 30.0
    characters: int = 64_000_000


class LimitReached(Exception):
    """A render ran past its limits."""


@final
class Cursor:
    """State of one render, reached from the compiled template.

    `current` is the origin of the tracked value that the innermost loop over the request holds, `NOWHERE` outside.
    `detailed` asks for the origin of each value inside serialised tools and arguments.
    """

    __slots__ = ("_deadline", "_limits", "_literals", "_steps", "current", "detailed")

    def __init__(self, limits: Limits, *, detailed: bool = False) -> None:
        self.current = NOWHERE
        self.detailed = detailed
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds
        self._steps = 0
        self._literals: dict[tuple[str, Origin], Marked] = {}

    def tick(self) -> None:
        """Count one loop iteration or macro call; look at the clock now and then."""
        self._steps += 1
        if not self._steps & 0xFF and time.monotonic() > self._deadline:
            raise LimitReached(f"still rendering after {self._limits.seconds:g} s")

    def check_size(self, characters: int) -> None:
        """Refuse texts longer than the limit."""
        if characters > self._limits.characters:
            raise LimitReached(f"longer than {self._limits.characters:,} characters")

    def enter(self, outer: Origin, value: Any) -> None:
        """A loop inside `outer` now holds `value`."""
        origin = origin_of(value)
        self.current = outer if origin is None else origin

    def literal(self, text: str) -> Marked:
        """The template's own `text`, written on behalf of the current value."""
        found = self._literals.get((text, self.current))
        return self._literal(text, self.current) if found is None else found

    def generation(self, text: str) -> Marked:
        """The template's own `text`, written because a generation prompt was asked for."""
        return self._literal(text, GENERATION)

    def _literal(self, text: str, origin: Origin) -> Marked:
        key = (text, origin)
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = Marked.whole(text, origin.as_literal())
        return found
