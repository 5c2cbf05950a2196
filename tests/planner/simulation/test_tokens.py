from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.simulation import token_session

IDS = st.lists(st.integers(0, 3), min_size=1, max_size=40)


@given(IDS, IDS)
def test_what_two_prompts_share_is_their_common_beginning(left: list[int], right: list[int]) -> None:
    session = token_session("s", [(left, ()), (right, ())])
    shared = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    assert session.common(1, 0) == shared


def test_ids_that_share_bytes_are_told_apart() -> None:
    session = token_session("s", [([1, 256], ()), ([1, 257], ())])
    assert session.common(1, 0) == 1


def test_the_nearest_prompt_is_the_latest_that_shares_most() -> None:
    session = token_session("s", [([1, 2, 3], ()), ([1, 5], ()), ([1, 2, 4], ()), ([1, 2, 9], ())])
    assert [session.nearest(i) for i in range(4)] == [None, 0, 0, 2]
