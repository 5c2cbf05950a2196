"""The character at which each token begins, proven by the bytes the tokens spell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spanparse.errors import SourceError
from spanparse.tokens.base import Backend


class Stretch(NamedTuple):
    """Text [start, end) and the tokens that it became when it was encoded on its own.

    `prefix`: the tokeniser's dummy space was allowed before it. `marker`: it is the text of one marker.
    """

    start: int
    end: int
    ids: list[int]
    prefix: bool
    marker: bool


def align(
    text: str, begin: int, ids: list[int], stretches: Iterable[Stretch], backend: Backend
) -> tuple[list[int], int | None]:
    """Align `ids`, which are those of `stretches` one after another, with `text` from `begin` on.

    What markers swallow lies in no stretch: no token begins in it. Returns the start of each token in characters, and
    the first token for which the tokeniser's own word had to be taken, None if the bytes prove all of them.

    Raises `SourceError` if the tokens of a stretch neither spell it nor can be aligned with it by the tokeniser.
    """
    whole = backend.pieces.offsets(ids, text[begin:], begin)
    if whole is not None:
        return whole, None
    offsets: list[int] = []
    told = None
    for stretch in stretches:
        part = text[stretch.start : stretch.end]
        if stretch.marker:
            offsets.append(stretch.start)
            continue
        proven = backend.pieces.offsets(stretch.ids, part, stretch.start)
        if proven is None:
            proven = _around_added(stretch, part, backend)
        if proven is None:
            told = len(offsets) if told is None else told
            proven = _told(stretch, part, backend)
        offsets += proven
    return offsets, told


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


def _told(stretch: Stretch, part: str, backend: Backend) -> list[int]:
    told = backend.align(part, prefix=stretch.prefix)
    if told is None or len(told) != len(stretch.ids):
        raise SourceError(backend.name, f"its tokens do not spell the text from character {stretch.start} on")
    return [stretch.start + offset for offset in told]
