"""The character at which each token begins, proven by the bytes the tokens spell."""

from __future__ import annotations

from typing import NamedTuple

from spanparse.errors import SourceError
from spanparse.tokens.base import Backend


class Stretch(NamedTuple):
    """Text [start, end) and the tokens that it became when it was encoded on its own.

    `prefix`: the tokeniser's dummy space was allowed before it.
    """

    start: int
    end: int
    ids: list[int]
    prefix: bool


def align(stretch: Stretch, text: str, backend: Backend) -> list[int] | None:
    """The start in `text` of each token, in characters; None if the tokens do not spell the stretch."""
    part = text[stretch.start : stretch.end]
    offsets = backend.pieces.offsets(stretch.ids, part, stretch.start)
    return _around_added(stretch, part, backend) if offsets is None else offsets


def align_as_told(stretch: Stretch, text: str, backend: Backend) -> list[int]:
    """The same by the tokeniser's own word, for text that a normaliser changed.

    Raises `SourceError` if it cannot tell.
    """
    told = backend.align(text[stretch.start : stretch.end], prefix=stretch.prefix)
    if told is None or len(told) != len(stretch.ids):
        raise SourceError(backend.name, f"its tokens do not spell the text from character {stretch.start} on")
    return [stretch.start + offset for offset in told]


def _around_added(stretch: Stretch, part: str, backend: Backend) -> list[int] | None:
    """Offsets where added tokens that are not control stand in the text.

    They swallow white space as markers do, and each may have a dummy space after it.
    """
    pieces, added = backend.pieces, backend.added.by_id
    offsets: list[int] = []
    at = first = 0
    for index, id in enumerate(stretch.ids):
        token = added.get(id)
        if token is None:
            continue
        found = part.find(token.text, at)
        if found < 0:
            return None
        between = part[at:found].rstrip(token.lstrip)
        before = pieces.offsets(stretch.ids[first:index], between, stretch.start + at)
        if before is None:
            return None
        offsets += [*before, stretch.start + found]
        at, first = found + len(token.text), index + 1
        while at < len(part) and part[at] in token.rstrip:
            at += 1
    after = pieces.offsets(stretch.ids[first:], part[at:], stretch.start + at)
    return None if after is None else offsets + after
