"""Marked JSON is json.dumps' text, and each value's characters come from that value."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spanparse.marks.marked import Marked, runs_of
from spanparse.marks.marked_json import dumps
from spanparse.marks.place import Place
from spanparse.marks.tracked import track

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
styles = st.fixed_dictionaries(
    {"detailed": st.booleans()},
    optional={
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "ensure_ascii": st.booleans(),
        "sort_keys": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " = ")]),
    },
)


@given(value=st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=3), style=styles)
def test_marked_json_is_what_json_dumps_gives(value: dict[str, Any], style: dict[str, Any]) -> None:
    expected = json.dumps(value, **{"ensure_ascii": False, **{k: v for k, v in style.items() if k != "detailed"}})
    marked = dumps(track(value, Place(("tools",)), printable=True), **style)
    assert str.__str__(marked) == expected
    runs = runs_of(marked)
    assert [run.start for run in runs] == [0, *[run.end for run in runs][:-1]]
    assert runs[-1].end == len(expected)


def test_the_arguments_of_a_call_are_one_value_unless_details_are_asked_for() -> None:
    call = {"name": "look", "arguments": {"at": ["it", 3]}}
    for style in ({}, {"indent": 2}):
        marked = dumps(track(call, Place(("messages", 0, "tool_calls", 0, "function"), 0)), **style, detailed=False)
        assert str.__str__(marked) == json.dumps(call, **style)
        runs = [run for run in runs_of(marked) if run.origin.path[-1] == "arguments"]
        assert len(runs) == 1
        assert json.loads(str.__str__(marked)[runs[0].start : runs[0].end]) == call["arguments"]


def test_each_tool_of_a_serialised_list_comes_from_its_own_place() -> None:
    marked = dumps(track([{"name": "a"}, {"name": "b", "n": 3}], Place(("tools",)), printable=True), detailed=False)
    shown: dict[object, str] = {}
    for run in runs_of(marked):
        place = run.origin.path[1] if len(run.origin.path) > 1 else None
        shown[place] = shown.get(place, "") + str.__str__(marked)[run.start : run.end]
    assert shown == {None: "[, ]", 0: '{"name": "a"}', 1: '{"name": "b", "n": 3}'}


def test_a_string_without_escapes_is_a_verbatim_copy() -> None:
    marked = dumps(track({"city": "Århus"}, Place(("messages", 0, "content"), 0)))
    copies = [(str.__str__(marked)[r.start : r.end], r.origin.field) for r in runs_of(marked) if r.source == 0]
    assert copies == [("Århus", "content.city")]


def test_values_that_are_not_from_the_request_stay_unmarked() -> None:
    assert not isinstance(dumps(1), Marked)
    shown = dumps({"a": 1, "b": "c"})
    assert {shown[run.start : run.end] for run in runs_of(shown)} == {"{", ": ", ", ", "}"}


def test_a_text_of_two_fields_is_escaped_field_by_field() -> None:
    one, two = (Marked.whole(text, Place(("messages", n, "content")).origin) for n, text in enumerate(["a\nb", "é\n"]))
    for style in ({}, {"ensure_ascii": True}):
        for value in (one + two, {"text": one + two}):
            marked = dumps(value, **style)
            assert str.__str__(marked) == json.dumps(value, **{"ensure_ascii": False, **style})
            shown = {
                n: "".join(
                    str.__str__(marked)[run.start : run.end]
                    for run in runs_of(marked)
                    if run.origin.path[:2] == ("messages", n)
                ).strip('"')
                for n in (0, 1)
            }
            assert shown == {0: "a\\nb", 1: json.dumps("é\n", **{"ensure_ascii": False, **style})[1:-1]}
