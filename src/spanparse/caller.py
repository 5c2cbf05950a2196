"""Which characters of a prompt are the caller's: all but what is proven to be the template's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Final

from spanparse.marks.marked import Runs
from spanparse.spans import Piece

_new: Final = tuple.__new__
_STANDARD_ROLES: Final = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
_WORD: Final = re.compile(r"\w[\w-]*")


def caller_text(
    text: str,
    runs: Runs,
    outside: Sequence[Piece],
    roles: Sequence[str],
    constants: Callable[[], Collection[str]],
) -> tuple[Piece, ...]:
    """The ranges of `text` that are not proven to be the template's own, sorted and disjoint.

    `runs` tile the text as it was rendered. The template's own are those of no field, except where they are `outside`,
    and in a frame of such text a role that the template knows: a standard one, or one of the template's `constants`.
    """
    accepted = [role in _STANDARD_ROLES or bool(_WORD.fullmatch(role) and role in constants()) for role in roles]
    borders = {border for piece in outside for border in piece}
    fields = _fields(text, runs, accepted, borders)
    return tuple(_merged(sorted([*fields, *outside]) if outside else fields))


def _fields(text: str, runs: Runs, accepted: Sequence[bool], borders: Set[int]) -> Iterator[Piece]:
    """The runs that show fields, but for framed roles."""
    literal_before = False
    for place, (start, end, (path, literal, message), _) in enumerate(runs):
        if start == end:
            continue
        if not literal:
            is_role = message is not None and path[2:] == ("role",) and accepted[message]
            after = runs[place + 1] if place + 1 < len(runs) else None
            framed = literal_before and after is not None and after[2][1] and borders.isdisjoint((start, end))
            if not (is_role and framed and not (text[start - 1] + text[end]).isspace()):
                yield _new(Piece, (start, end))
        literal_before = literal


def _merged(pieces: Sequence[Piece] | Iterator[Piece]) -> Iterator[Piece]:
    begin = end = -1
    for start, stop in pieces:
        if start > end:
            if end > begin:
                yield _new(Piece, (begin, end))
            begin = start
        end = max(end, stop)
    if end > begin:
        yield _new(Piece, (begin, end))
