"""The character at which each token begins, proven by the bytes the tokens spell."""

from __future__ import annotations

from typing import NamedTuple

from spanparse.errors import SourceError
from spanparse.tokens.base import Backend


class Stretch(NamedTuple):
    """Text that begins at character `start` of the prompt, and the tokens that it became when it was encoded by itself.

    `prefix`: the tokeniser's dummy space was allowed before it. `offsets`: where each token starts, if that is known.
    """

    start: int
    text: str
    ids: list[int]
    prefix: bool
    offsets: list[int] | None = None


def align(stretch: Stretch, backend: Backend) -> list[int] | None:
    """The character of the prompt at which each token starts; None if the tokens do not spell the stretch."""
    if stretch.offsets is not None:
        return stretch.offsets
    # White space that a token swallows and a dummy space behind it spell the text between them, a character too early.
    swallows = not backend.added.swallowing.isdisjoint(stretch.ids)
    offsets = _around_added(stretch, backend) if swallows else None
    if offsets is None:
        offsets = backend.pieces.offsets(stretch.ids, stretch.text, stretch.start)
    return offsets if offsets is not None or swallows else _around_added(stretch, backend)


def align_as_told(stretch: Stretch, backend: Backend) -> list[int]:
    """The same by the tokeniser's own word, for text that a normaliser changed.

    Raises `SourceError` if it cannot tell.
    """
    told = backend.align(stretch.text, prefix=stretch.prefix)
    if told is None or len(told) != len(stretch.ids):
        raise SourceError(backend.name, f"its tokens do not spell the text from character {stretch.start} on")
    return [stretch.start + offset for offset in told]


def _around_added(stretch: Stretch, backend: Backend) -> list[int] | None:
    """Offsets where added tokens that are not control stand in the text.

    They swallow white space as markers do, and each may have a dummy space after it.
    """
    pieces, added = backend.pieces, backend.added.by_id
    start, text, ids = stretch.start, stretch.text, stretch.ids
    offsets: list[int] = []
    at = first = 0
    for index, id in enumerate(ids):
        token = added.get(id)
        if token is None:
            continue
        found = text.find(token.text, at)
        if found < 0:
            return None
        before = pieces.offsets(ids[first:index], text[at:found].rstrip(token.lstrip), start + at)
        if before is None:
            return None
        offsets += [*before, start + found]
        at, first = found + len(token.text), index + 1
        while at < len(text) and text[at] in token.rstrip:
            at += 1
    after = pieces.offsets(ids[first:], text[at:], start + at)
    return None if after is None else offsets + after
