from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanparse.spans import Piece
from spanparse.tokens import AddedToken, AddedTokens

ANGLES = st.text("<a|>", min_size=1, max_size=5)


def added(*texts: str, **fields: str) -> AddedTokens:
    return AddedTokens(AddedToken(text, n, special=True, **fields) for n, text in enumerate(texts))  # type: ignore[arg-type]


def found(tokens: AddedTokens, text: str, *within: Piece) -> list[tuple[int, int]]:
    return [(cut.start, cut.end) for cut in tokens.cuts(text, within or [Piece(0, len(text))])]


@given(st.sets(ANGLES, max_size=6), st.text("<a|>", max_size=30))
def test_cuts_are_the_leftmost_longest_markers(texts: set[str], text: str) -> None:
    expected, at = [], 0
    while at < len(text):
        longest = max((len(t) for t in texts if text.startswith(t, at)), default=0)
        if longest:
            expected.append((at, at + longest))
        at += longest or 1
    assert found(added(*texts), text) == expected


@given(st.sets(ANGLES, min_size=1, max_size=6), st.text("<a|>", max_size=20), st.text("<a|>", max_size=5))
def test_an_offset_that_no_marker_may_straddle_has_the_same_cuts_before_it_whatever_follows(
    texts: set[str], text: str, more: str
) -> None:
    tokens = added(*texts)
    if not tokens.may_straddle(text, len(text), 1):
        assert [cut for cut in found(tokens, text + more) if cut[0] < len(text)] == found(tokens, text)


def test_a_marker_counts_only_if_it_lies_wholly_inside_one_range() -> None:
    text = "<a><a><a>"
    assert found(added("<a>"), text, Piece(0, 4), Piece(6, 9)) == [(0, 3), (6, 9)]


def test_a_marker_swallows_white_space_around_it_but_not_twice() -> None:
    tokens = added("<a>", lstrip=" ", rstrip=" \n")
    outer = [(cut.outer_start, cut.outer_end) for cut in tokens.cuts("x  <a> \n <a>\t", [Piece(0, 14)])]
    assert outer == [(1, 9), (9, 12)]


def test_what_a_marker_swallows_may_lie_outside_the_range() -> None:
    (cut,) = added("<a>", rstrip=" ").cuts("<a>   b", [Piece(0, 3)])
    assert cut.outer_end == 6


def test_letters_words_and_blanks_are_no_markers_unless_special() -> None:
    texts = ["ö", "÷", "hello", "\n\n", "    ", "...", "<tool_call>", "[INST]", "</think>"]
    tokens = AddedTokens(AddedToken(text, n, special=False) for n, text in enumerate(texts))
    assert found(tokens, "".join(texts)) == [(16, 27), (27, 33), (33, 41)]


def test_barred_names_are_control_even_if_they_are_not_flagged_special() -> None:
    texts = ["<｜User｜>", "<|user|>", "<tool_call>", "ö"]
    tokens = AddedTokens(AddedToken(text, n, special=False) for n, text in enumerate(texts))
    assert tokens.control_ids == {0, 1}


def test_a_vocabulary_without_markers_has_no_cuts() -> None:
    assert found(added(), "<a>") == []
    assert not added().may_straddle("<a>", 1, 1)
