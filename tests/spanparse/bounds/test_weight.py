"""A value's weight follows its printed form, whatever it is made of, and is found in time for values without end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.utils import Namespace

from spanparse.bounds.limits import LimitReached
from spanparse.bounds.weight import MAX_DEPTH, weigh
from spanparse.marks.place import Place
from spanparse.marks.tracked import track

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=40,
)


def height(value: Any) -> int:
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return 1 + max(map(height, items), default=0)
    return 0


@given(values)
def test_the_weight_is_about_the_printed_length(value: Any) -> None:
    characters, levels, _ = weigh(value, 1_000_000)
    # Escapes aside, of which the longest makes ten characters of one.
    assert len(repr(value)) <= 10 * characters + 2
    assert characters <= 14 * len(repr(value)) + 24
    assert levels == height(value)


@given(values)
def test_marks_make_no_difference(value: Any) -> None:
    assert weigh(track(value, Place(("arguments",)), printable=True), 1_000_000) == weigh(value, 1_000_000)


def doubled(value: Any, make: Any) -> Any:
    for _ in range(60):
        value = make(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        doubled("x", lambda inner: [inner, inner]),
        doubled("x", lambda inner: (inner, inner)),
        doubled("x", lambda inner: {"a": inner, "b": inner}),
        doubled("x", lambda inner: {"a": inner, "b": inner}.items()),
        doubled("x", lambda inner: {"a": inner, "b": inner}.values()),
        doubled("x", lambda inner: Namespace(a=inner, b=inner)),
        ["x" * 1000] * 1001,
    ],
    ids=["lists", "tuples", "dicts", "items", "values", "namespaces", "aliases"],
)
def test_a_value_that_prints_without_end_is_found_out(value: Any) -> None:
    with pytest.raises(LimitReached, match="prints as more than 1,000,000 characters"):
        weigh(value, 1_000_000)


@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"a": inner}])
def test_nesting_is_followed_so_far_and_no_further(make: Any) -> None:
    value: Any = "x"
    for _ in range(MAX_DEPTH):
        value = make(value)
    assert weigh(value, 1_000_000).height == MAX_DEPTH
    with pytest.raises(LimitReached, match="nested more than"):
        weigh(make(value), 1_000_000)


def test_a_value_met_again_at_a_greater_depth_counts_with_its_own() -> None:
    shared: Any = "x"
    for _ in range(150):
        shared = (shared,)
    value: Any = shared
    for _ in range(100):
        value = (shared, value)
    with pytest.raises(LimitReached, match="nested more than"):
        weigh((shared, value), 1_000_000)


def test_what_holds_itself_has_no_weight() -> None:
    """Python prints an ellipsis for it, and the rest once for each way there is to it from where it begins."""
    namespace = Namespace(a="a" * 1000)
    namespace["b"] = [namespace] * 1000
    with pytest.raises(LimitReached, match="holds itself"):
        weigh([namespace, namespace.b], 1_000_000)


def test_what_prints_what_it_belongs_to_weighs_as_much() -> None:
    held = {"a": "a" * 5000}
    assert weigh([held.keys().mapping] * 3, 1_000_000).characters > 15_000
    tracked: Any = track(held, Place(()))
    assert weigh([tracked.get] * 3, 1_000_000).characters > 15_000
