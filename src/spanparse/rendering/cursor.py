"""What a render is doing at this moment: whose text the template is writing."""

from __future__ import annotations

from typing import Any, final

from spanparse.bounds.limits import LimitReached as LimitReached
from spanparse.bounds.limits import Limits as Limits
from spanparse.marks.marked import Marked
from spanparse.marks.origin import GENERATION, NOWHERE, Origin
from spanparse.marks.tracked import origin_of


@final
class Cursor:
    """State of one render, reached from the compiled template.

    `current` is the origin of the tracked value that the innermost loop over the request holds, `NOWHERE` outside.
    `detailed` asks for the origin of each value inside serialised tools and arguments.
    """

    __slots__ = ("_literals", "current", "detailed")

    def __init__(self, *, detailed: bool = False) -> None:
        self.current = NOWHERE
        self.detailed = detailed
        self._literals: dict[tuple[str, Origin], Marked] = {}

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
