"""Common prefixes and their identity."""

from __future__ import annotations

from itertools import takewhile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.prefix import as_tokens, common_prefix, prefix_digest

ids = st.lists(st.integers(0, 3), max_size=12)


@given(ids, ids)
def test_the_common_prefix_is_that_of_the_lists(a, b):
    assert common_prefix(as_tokens(a), as_tokens(b)) == len(
        list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    )


@given(ids, ids)
def test_prefixes_have_the_same_digest_exactly_when_they_are_equal(a, b):
    n = min(len(a), len(b))
    same = prefix_digest(as_tokens(a), n) == prefix_digest(as_tokens(b), n)
    assert same == (a[:n] == b[:n])


def test_the_length_is_part_of_the_identity():
    tokens = as_tokens([0, 0, 0])
    assert prefix_digest(tokens, 2) != prefix_digest(tokens, 3)


def test_an_array_of_tokens_is_not_copied():
    tokens = np.array([1, 2, 3], dtype=np.int32)
    assert as_tokens(tokens) is tokens
