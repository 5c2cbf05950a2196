"""What the order of owners says."""

from __future__ import annotations

import pytest

from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE, fall


@pytest.mark.parametrize(
    ("owners", "falls"),
    [
        ([], False),
        ([PREAMBLE, 0, 0, None, 1, None, 2, GENERATION_PROMPT], False),
        ([None, None], False),
        ([0, 1, None, 0], True),
        ([1, 0], True),
        ([0, PREAMBLE], True),
    ],
)
def test_owners_fall_where_a_message_stands_behind_a_later_one(owners: list[int | None], falls: bool) -> None:
    assert fall(owners) is falls
