from __future__ import annotations

from itertools import islice, pairwise, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.optimum.stream import WORST, changes, evenly

LONGEST = 10**6


def longest_gap(kept: tuple[int, ...], length: int) -> int:
    return max(b - a for a, b in pairwise((0, *kept, length)))


@pytest.mark.parametrize("count", range(2, 33))
def test_at_no_moment_of_a_million_tokens_is_a_gap_longer_than_promised(count: int) -> None:
    moments = [*takewhile(lambda change: change[0] <= LONGEST, changes(count)), (LONGEST + 1, ())]
    for (moment, kept), (following, _) in pairwise([(0, ()), *moments]):
        assert len(kept) <= count
        # Between two changes only the last gap grows, and it grows faster than the bound: its ends are enough.
        for length in (moment, following - 1):
            assert longest_gap(kept, length) <= WORST * length / (count + 1) + 1


@given(st.integers(2, 32), st.integers(0, LONGEST))
def test_the_bound_holds_at_any_length(count: int, length: int) -> None:
    assert longest_gap(evenly(count, length), length) <= WORST * length / (count + 1) + 1


@pytest.mark.parametrize("count", [1, 2, 4, 6, 7, 8, 32, 50])
def test_a_state_that_is_gone_does_not_come_back(count: int) -> None:
    for (_, before), (moment, after) in pairwise(islice(changes(count), 300)):
        assert set(after) <= {*before, moment}


@given(st.integers(0, 40), st.integers(0, LONGEST))
def test_what_is_kept_lies_within_the_stream_and_the_budget(count: int, length: int) -> None:
    kept = evenly(count, length)
    assert len(kept) <= count
    assert all(0 < offset <= length for offset in kept)
    assert list(kept) == sorted(set(kept))


def test_first_in_first_out_keeps_no_such_promise() -> None:
    saved = range(0, 100_000, 1000)
    assert longest_gap(tuple(saved)[-8:], 100_000) > 5 * WORST * 100_000 / 9
