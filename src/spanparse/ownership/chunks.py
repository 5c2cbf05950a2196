"""Chunks of a template's own text: what cannot be parted when two texts are compared.

A chunk is a marker of whatever form, a word, white space in a row, or another character. What a marker is called does
not matter here, nor does its form: `<|im_end|>`, `[/INST]` and `<x17>` are one chunk each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_MARKER: Final = r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]"
MOST_WRITTEN: Final = 1 << 16
"""Characters of the template's own text, between two fields, that are looked at: no template writes so many."""

_LONGEST_MARKER: Final = 62
_CHUNK: Final = re.compile(rf"{_MARKER}|\w+|\s+|.", re.DOTALL)
_ONE: Final = re.compile(_MARKER)


@lru_cache(maxsize=4096)
def chunks(text: str) -> tuple[str, ...]:
    """The chunks that tile `text`."""
    return tuple(_CHUNK.findall(text))


def is_marker(chunk: str) -> bool:
    """Whether a chunk is a marker."""
    return _ONE.fullmatch(chunk) is not None


def is_blank(text: str) -> bool:
    """Whether a text says nothing: it is empty or white space."""
    return not text or text.isspace()


def common_end(texts: Iterable[str]) -> str:
    """The chunks that all `texts` end with."""
    split = [chunks(text) for text in texts]
    size = 0
    while all(len(found) > size for found in split) and len({found[-1 - size] for found in split}) == 1:
        size += 1
    return "".join(split[0][len(split[0]) - size :]) if split else ""


def begins_with(text: str, beginning: str) -> bool:
    """Whether the first chunks of `text` are those of `beginning`, white space at its end aside."""
    beginning = beginning.rstrip()
    if not beginning or not text.startswith(beginning):
        return False
    own = chunks(beginning)
    # No chunk that ends in `beginning` goes on further than a marker may.
    return chunks(text[: len(beginning) + _LONGEST_MARKER])[: len(own)] == own


def find_last(text: str, marks: Iterable[str]) -> int:
    """Where the last of `marks` begins in `text`, each made of whole chunks; -1 if there is none."""
    return max((at for mark in marks for at in _places(text, mark)), default=-1)


def find_first(text: str, marks: Iterable[str]) -> int:
    """Where the first of `marks` begins in `text`, each made of whole chunks; -1 if there is none."""
    return min((at for mark in marks for at in _places(text, mark)), default=-1)


def _places(text: str, mark: str) -> list[int]:
    if not mark or mark not in text:
        return []
    borders = {0}
    at = 0
    for chunk in chunks(text):
        at += len(chunk)
        borders.add(at)
    found = []
    at = text.find(mark)
    while at >= 0:
        if at in borders and at + len(mark) in borders:
            found.append(at)
        at = text.find(mark, at + 1)
    return found
