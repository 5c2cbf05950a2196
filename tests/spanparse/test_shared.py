from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanparse.shared import common_prefix, shared_ranges
from spanparse.spans import Piece

TEXT = st.text("ab", max_size=12)


@given(TEXT, TEXT)
def test_texts_share_what_is_alike_from_their_beginning(one: str, other: str) -> None:
    shared = common_prefix(one, other)
    assert one[:shared] == other[:shared]
    assert one[shared : shared + 1] != other[shared : shared + 1] or shared == len(one) == len(other)


def pieces(marks: list[bool]) -> list[Piece]:
    """The runs of True."""
    edges = [at for at, (a, b) in enumerate(zip([False, *marks], [*marks, False], strict=True)) if a != b]
    return [Piece(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)]


@given(st.lists(st.booleans(), max_size=12), st.lists(st.booleans(), max_size=12), st.integers(0, 14))
def test_ranges_are_alike_up_to_the_first_character_that_only_one_has(
    one: list[bool], other: list[bool], end: int
) -> None:
    size = max(len(one), len(other), end)
    mine, theirs = ([*marks, *[False] * (size - len(marks))] for marks in (one, other))
    differing = [at for at, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    assert shared_ranges(pieces(one), pieces(other), end) == min([end, *differing])
