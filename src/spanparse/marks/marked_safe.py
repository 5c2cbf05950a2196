"""`Markup` with marks: what the `safe` and `escape` filters return.

Chat templates render without autoescaping, yet text that went through `safe` escapes what is joined to it with `+`.
A marked render must do the same to stay equal to the plain one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, SupportsIndex, final

import markupsafe
from markupsafe import Markup

from spanparse.marks.marked import Marked, Runs, concat, runs_of
from spanparse.marks.origin import Run

_SPECIAL = re.compile("([&<>'\"]+)")


@final
class SafeMarked(Markup):
    """Text that counts as HTML, with the runs of its characters."""

    __slots__ = ("_pieces",)
    _pieces: Runs

    def __new__(cls, text: Any = "", encoding: str | None = None, errors: str = "strict") -> SafeMarked:
        self = super().__new__(cls, text)
        self._pieces = runs_of(text)
        return self

    def __str__(self) -> str:
        return Marked(str.__str__(self), self._pieces)

    def __repr__(self) -> str:
        return f"Markup({str.__repr__(self)})"

    def __getitem__(self, key: SupportsIndex | slice) -> SafeMarked:
        return SafeMarked(str(self)[key])

    def __iter__(self) -> Iterator[str]:
        return iter(str(self))  # no HTML any more, as with Markup

    def __add__(self, other: Any) -> SafeMarked:
        if isinstance(other, str) or hasattr(other, "__html__"):
            return SafeMarked(concat((str(self), str(escape(other)))))
        return NotImplemented

    def __radd__(self, other: Any) -> SafeMarked:
        if isinstance(other, str) or hasattr(other, "__html__"):
            return SafeMarked(concat((str(escape(other)), str(self))))
        return NotImplemented


def mark_safe(value: Any) -> SafeMarked:
    """The `safe` filter."""
    return SafeMarked(str(value))


def escape(value: Any) -> SafeMarked:
    """The `escape` filter: HTML passes, anything else gets its special characters replaced."""
    if isinstance(value, SafeMarked):
        return value
    if hasattr(value, "__html__"):
        return SafeMarked(value.__html__())
    return force_escape(value)


def force_escape(value: Any) -> SafeMarked:
    """The `forceescape` filter: replaces special characters in HTML too."""
    text = str(value)
    plain = str.__str__(text)
    parts: list[str] = []
    runs: list[Run] = []
    before = at = 0
    for run in runs_of(text):
        between = _escaped(plain[before : run.start])
        parts.append(between)
        at += len(between)
        before = run.end
        # What was computed before has no offsets that could be kept; what is copied keeps them between the entities.
        pieces = _SPECIAL.split(plain[run.start : run.end]) if run.source >= 0 else (plain[run.start : run.end],)
        source = run.source
        for place, piece in enumerate(pieces):
            # Every other piece is made of special characters.
            new = _escaped(piece) if place % 2 or run.source < 0 else piece
            if new:
                parts.append(new)
                runs.append(Run(at, at + len(new), run.origin, source if new is piece and run.source >= 0 else -1))
                at += len(new)
            source += len(piece)
    parts.append(_escaped(plain[before:]))
    return SafeMarked(Marked("".join(parts), tuple(runs)))


def _escaped(text: str) -> str:
    if not text:
        return ""
    return str.__str__(markupsafe.escape(text))
