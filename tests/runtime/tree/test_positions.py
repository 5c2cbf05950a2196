"""Positions are where llama.cpp has tokens; a length inside media is none to stop at."""

from __future__ import annotations

import pytest

from runtime.tree.positions import Positions

# Ten tokens of text, an image of 16 tokens all at position 10 that takes 4 positions, text, a recording.
MIXED = Positions().with_media(10, 26, 4, last=10).with_media(30, 38, 8, last=25)


@pytest.mark.parametrize(("length", "after"), [(0, 0), (10, 10), (26, 14), (29, 17), (30, 18), (38, 26), (40, 28)])
def test_the_next_token_stands_after_the_positions_of_media(length, after):
    assert MIXED.after(length) == after


@pytest.mark.parametrize(("length", "last"), [(0, -1), (1, 0), (10, 9), (26, 10), (27, 14), (38, 25), (39, 26)])
def test_the_last_cell_of_media_may_stand_further_back(length, last):
    assert MIXED.last(length) == last


@pytest.mark.parametrize(("length", "whole"), [(10, 10), (11, 10), (25, 10), (26, 26), (31, 30), (99, 99)])
def test_media_are_kept_as_a_whole_or_not(length, whole):
    assert MIXED.whole(length) == whole


def test_media_past_a_length_are_forgotten():
    assert MIXED.up_to(37) == MIXED.up_to(26) == Positions().with_media(10, 26, 4, last=10)
    assert MIXED.up_to(25) == Positions()
