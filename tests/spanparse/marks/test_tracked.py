"""A tracked value is the value itself to everything that looks at it, and knows its place however it is reached."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.marks.marked import Marked, runs_of
from spanparse.marks.place import Place
from spanparse.marks.tracked import TrackedDict, TrackedInt, track, track_message

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = Place(("messages", 2, "tool_calls", 0, "function", "arguments"), 2)
CALL: dict[str, Any] = {"name": "look", "at": ["a", {"x": 3}], "deep": {"city": "Århus"}}


def origins(value: Any) -> set[tuple[str | int, ...]]:
    """The paths of all texts and numbers inside `value`, reached as a template would reach them."""
    if isinstance(value, Marked):
        return {run.origin.path for run in runs_of(value)}
    if isinstance(value, dict):
        return set().union(*(origins(key) | origins(item) for key, item in value.items()))
    if isinstance(value, list):
        return set().union(*map(origins, value))
    return {value._place.origin.path} if isinstance(value, TrackedInt) else set()


@given(value=st.dictionaries(st.text(max_size=3), values, max_size=3), first=st.booleans())
def test_nothing_but_the_marks_differs_before_and_after_it_was_looked_into(value: dict[str, Any], first: bool) -> None:
    tracked = track(value, ARGUMENTS, printable=True)
    if first:
        assert json.dumps(tracked) == json.dumps(value)
    assert tracked == value
    assert repr(tracked) == repr(value)
    assert list(tracked) == list(value)
    assert list(tracked.items()) == list(value.items())
    assert [tracked.get(key) for key in value] == list(value.values())
    assert (len(tracked), bool(tracked)) == (len(value), bool(value))
    assert json.dumps(tracked) == json.dumps(value)


@pytest.mark.parametrize(
    "reach",
    [
        lambda d: d,
        dict,
        lambda d: {**d},
        lambda d: d.copy(),
        lambda d: dict(d.items()),
        lambda d: dict(zip(d, d.values(), strict=True)),
        lambda d: dict(zip(d.keys(), map(d.get, d), strict=True)),
        lambda d: {key: d[key] for key in reversed(d)},
        lambda d: (lambda **fields: {**d, **fields})(**{str.__str__(key): item for key, item in d.items()}),
    ],
    ids=["itself", "dict", "unpacked", "copied", "items", "values", "get", "reversed", "keywords"],
)
def test_every_way_into_a_dict_finds_marked_keys_and_values(reach: Callable[[TrackedDict], dict[str, Any]]) -> None:
    below = {("name",), ("at",), ("at", 0), ("at", 1, "x"), ("deep",), ("deep", "city")}
    assert origins(reach(track(CALL, ARGUMENTS, printable=True))) == {(*ARGUMENTS.origin.path, *path) for path in below}


def test_arguments_have_marked_keys_and_other_fields_of_a_message_do_not() -> None:
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
    paths = origins(track_message(message, Place(("messages", 4), 4)))
    assert paths == {
        ("messages", 4, "role"),
        ("messages", 4, "content"),
        ("messages", 4, "tool_calls", 0, "function", "name"),
        ("messages", 4, "tool_calls", 0, "function", "arguments", "a"),
    }


def test_a_value_asked_for_twice_is_the_same_one() -> None:
    tracked = track(CALL, ARGUMENTS)
    assert tracked["name"] is tracked.get("name") is next(iter(tracked.values()))
    assert tracked["deep"]["city"] is tracked["deep"]["city"]


@given(st.dictionaries(st.text(max_size=3), values, max_size=3), st.booleans())
def test_printed_it_is_what_python_says_of_it_and_each_value_knows_its_place(
    value: dict[str, Any], printable: bool
) -> None:
    tracked = track({"at": [value, 1.5]}, Place(("tools",)), printable)
    shown = str(tracked)
    assert shown == str({"at": [value, 1.5]})
    runs = runs_of(shown)
    assert [run.start for run in runs] == [0, *(run.end for run in runs[:-1])]
    found = [shown[run.start : run.end] for run in runs if run.origin.path == ("tools", "at", 1)]
    assert found == (["1.5"] if printable else [])
