"""`Markup` with marks: what the `safe` and `escape` filters return.

Chat templates render without autoescaping, yet text that went through `safe` escapes what is joined to it with `+`.
A marked render must do the same to stay equal to the plain one.
"""

from __future__ import annotations

from typing import Any, final

from markupsafe import Markup

from spanparse.marks.marked import Marked, Runs, concat, runs_of

_ESCAPES = (("&", "&amp;"), (">", "&gt;"), ("<", "&lt;"), ("'", "&#39;"), ('"', "&#34;"))


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
    text = Marked(str.__str__(str(value)), runs_of(str(value)))
    for character, entity in _ESCAPES:
        text = text.replace(character, entity)
    return SafeMarked(text)
