"""What identifies a prefix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.prefix import as_tokens, prefix_digest
from runtime.store.name import Medium, Name, prefix_keys

IDS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(IDS, IDS)
def test_keys_are_equal_exactly_where_the_tokens_before_are(a, b):
    keys_a, keys_b = prefix_keys(a, range(13)), prefix_keys(b, range(13))
    for length in range(1, min(len(a), len(b)) + 1):
        assert (keys_a[length] == keys_b[length]) == (a[:length] == b[:length])


def test_a_key_does_not_depend_on_what_else_is_asked_for():
    media = [Medium(10, 20, "cat")]
    assert prefix_keys(range(100), [70], media)[70] == prefix_keys(range(100), [3, 50, 70, 90], media)[70]


def test_without_media_a_key_is_the_digest_of_the_tokens():
    assert prefix_keys([5, 6, 7], [2])[2] == prefix_digest(as_tokens([5, 6, 7]), 2).hex()


def test_media_of_other_content_or_elsewhere_make_other_keys_only_behind_them():
    ids, lengths = [1] * 10, [3, 6, 10]
    first = prefix_keys(ids, lengths, [Medium(3, 6, "cat")])
    other = prefix_keys(ids, lengths, [Medium(3, 6, "dog")])
    moved = prefix_keys(ids, lengths, [Medium(6, 9, "cat")])
    assert first[3] == other[3] == moved[3]
    assert len({first[6], other[6], moved[6]}) == 3
    assert len({first[10], other[10], moved[10]}) == 3


def test_there_is_no_key_inside_media_and_none_outside_the_prompt():
    assert set(prefix_keys([1] * 10, [0, 3, 4, 5, 6, 10, 11], [Medium(3, 6, "cat")])) == {3, 6, 10}


def test_a_name_is_spelled_and_read_back():
    name = Name("a" * 32, 4096, "0" * 32)
    assert Name.parse(str(name)) == name


@pytest.mark.parametrize("text", ["", "notes.txt", f"{'a' * 32}-0-{'b' * 32}", f"{'a' * 32}-5-{'b' * 31}"])
def test_other_texts_are_no_names(text):
    assert Name.parse(text) is None
