"""How far two prompts begin alike, and what lies between ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from spanparse.spans import Piece


def common_prefix(one: str, other: str) -> int:
    """The length of the longest common prefix in characters."""
    low, high = 0, min(len(one), len(other))
    if one.startswith(other[:high]):
        return high
    # Halving compares slices, which is quicker by far than looking at each character.
    while high - low > 1:
        middle = (low + high) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle
    return low


def shared_ranges(one: Sequence[Piece], other: Sequence[Piece], end: int) -> int:
    """The characters up to which a character is in a range of one where it is in one of the other, at most `end`.

    The ranges of either are sorted, disjoint and not empty.
    """
    differing = next((pair for pair in zip_longest(one, other, fillvalue=Piece(end, end)) if pair[0] != pair[1]), None)
    if differing is None:
        return end
    mine, theirs = differing
    return min(end, mine.start, theirs.start) if mine.start != theirs.start else min(end, mine.end, theirs.end)


def gaps(taken: Sequence[Piece], begin: int, end: int) -> Iterator[Piece]:
    """What of [begin, end) lies in none of the ranges `taken`, which are sorted and disjoint."""
    at = begin
    for piece in islice(taken, max(0, bisect_left(taken, (begin,)) - 1), None):
        if piece.start >= end:
            break
        if piece.start > at:
            yield Piece(at, piece.start)
        at = max(at, piece.end)
    if end > at:
        yield Piece(at, end)
