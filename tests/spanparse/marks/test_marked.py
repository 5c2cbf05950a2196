"""Every string operation gives the same text on a marked string as on a plain one, and keeps the marks true."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.marks.marked import Marked, concat, runs_of
from spanparse.marks.origin import NOWHERE, Origin

FIELD = Origin(("messages", 0, "content"))
OTHER = Origin(("messages", 1, "content"))

texts = st.text(alphabet="aB \n\t<>%ßİ😀é/", max_size=12)
small = st.integers(-15, 15)


def verbatim(text: str, field: str) -> bool:
    """Whether every run of FIELD that claims to be a copy is one."""
    return all(
        field[run.source : run.source + run.end - run.start] == str.__str__(text)[run.start : run.end]
        for run in runs_of(text)
        if run.origin is FIELD and run.source >= 0
    )


def tiled_in_order(text: str) -> bool:
    at = 0
    for run in runs_of(text):
        empty = run.start == run.end and not run.origin.literal
        if run.start < at or (run.end <= run.start and not empty):
            return False
        at = run.end
    return at <= len(text)


@given(texts, texts, small, small)
def test_slices_keep_text_and_sources(value: str, tail: str, start: int, end: int) -> None:
    marked = Marked.whole(value, FIELD, 0) + Marked.whole(tail, NOWHERE)
    for key in (slice(start, end), slice(start, None), slice(None, end), slice(None, None, -1), slice(start, end, 2)):
        assert marked[key] == (value + tail)[key]
        assert verbatim(marked[key], value)
        assert tiled_in_order(marked[key])


OPERATIONS: dict[str, Any] = {
    "strip": lambda s, a, b: s.strip(),
    "strip chars": lambda s, a, b: s.strip(a or None),
    "lstrip": lambda s, a, b: s.lstrip(a or None),
    "rstrip": lambda s, a, b: s.rstrip("\n"),
    "lower": lambda s, a, b: s.lower(),
    "upper": lambda s, a, b: s.upper(),
    "title": lambda s, a, b: s.title(),
    "capitalize": lambda s, a, b: s.capitalize(),
    "swapcase": lambda s, a, b: s.swapcase(),
    "casefold": lambda s, a, b: s.casefold(),
    "replace": lambda s, a, b: s.replace(a, b),
    "replace once": lambda s, a, b: s.replace(a, b, 1),
    "removeprefix": lambda s, a, b: s.removeprefix(a),
    "removesuffix": lambda s, a, b: s.removesuffix(a),
    "split": lambda s, a, b: s.split(),
    "split at": lambda s, a, b: s.split(a or "<"),
    "split once": lambda s, a, b: s.split(a or "<", 1),
    "split words once": lambda s, a, b: s.split(None, 1),
    "rsplit": lambda s, a, b: s.rsplit(a or "<", 1),
    "rsplit words once": lambda s, a, b: s.rsplit(None, 1),
    "splitlines": lambda s, a, b: s.splitlines(),
    "splitlines keepends": lambda s, a, b: s.splitlines(True),
    "partition": lambda s, a, b: list(s.partition(a or "<")),
    "rpartition": lambda s, a, b: list(s.rpartition(a or "<")),
    "center": lambda s, a, b: s.center(len(a) + 5),
    "ljust": lambda s, a, b: s.ljust(9, "-"),
    "rjust": lambda s, a, b: s.rjust(9),
    "zfill": lambda s, a, b: s.zfill(9),
    "expandtabs": lambda s, a, b: s.expandtabs(),
    "add": lambda s, a, b: s + a,
    "radd": lambda s, a, b: a + s,
    "times": lambda s, a, b: s * 3,
    "join": lambda s, a, b: s.join([a, b, a]),
    "iterate": lambda s, a, b: list(s),
    "format percent": lambda s, a, b: type(s)("[%s|%s]") % (s, a),
    "str": lambda s, a, b: str(s),
}


# Where these cannot follow each character, they give an ordinary string, which the render's cursor is told of.
GIVING_UP = ("title", "capitalize", "replace", "replace once", "zfill", "expandtabs")


@pytest.mark.parametrize("name", OPERATIONS)
@given(value=texts, a=texts, b=texts)
def test_operations_give_the_plain_result_and_true_marks(name: str, value: str, a: str, b: str) -> None:
    operation = OPERATIONS[name]
    expected = operation(value, a, b)
    result = operation(Marked.whole(value, FIELD, 0), a, b)
    assert result == expected
    for piece in result if isinstance(result, list) else [result]:
        assert isinstance(piece, Marked) or name in GIVING_UP
        assert verbatim(piece, value)
        assert tiled_in_order(piece)


@given(st.lists(texts, max_size=6))
def test_concatenation_keeps_every_part_from_its_origin(values: list[str]) -> None:
    origins = [Origin(("messages", i, "content")) for i in range(len(values))]
    whole = concat([Marked.whole(value, origin, 0) for value, origin in zip(values, origins, strict=True)])
    assert whole == "".join(values)
    shown = [(run.origin, str.__str__(whole)[run.start : run.end]) for run in runs_of(whole)]
    assert shown == [(origin, value) for value, origin in zip(values, origins, strict=True)]


def test_what_is_put_in_place_of_a_text_keeps_its_own_marks() -> None:
    result = Marked.whole("a<b", FIELD, 0).replace("<", Marked.whole("&lt;", NOWHERE))
    assert result == "a&lt;b"
    assert [(run.origin, run.source) for run in runs_of(result)] == [(FIELD, 0), (NOWHERE, -1), (FIELD, 2)]
    bare = Marked.whole("a<b", FIELD, 0).replace("<", "&lt;")
    assert [(run.start, run.end) for run in runs_of(bare)] == [(0, 1), (5, 6)]


@pytest.mark.parametrize("change", ["lower", "upper", "title", "capitalize", "swapcase", "casefold"])
@given(value=texts, tail=texts)
def test_a_changed_case_leaves_each_character_with_its_field(change: str, value: str, tail: str) -> None:
    whole = Marked.whole(value, FIELD, 0) + Marked.whole(tail, OTHER, 0)
    result = getattr(whole, change)()
    assert result == getattr(value + tail, change)()
    if isinstance(result, Marked) and change in ("lower", "upper", "casefold"):
        shown = [
            "".join(str.__str__(result)[r.start : r.end] for r in runs_of(result) if r.origin is o)
            for o in (FIELD, OTHER)
        ]
        assert shown == [getattr(value, change)(), getattr(tail, change)()]


def test_marked_text_is_an_ordinary_string_to_json_dicts_and_repr() -> None:
    marked = Marked.whole("é\n", FIELD, 0)
    assert json.dumps([marked]) == json.dumps(["é\n"])
    assert {"é\n": 1}[marked] == 1
    assert repr([marked]) == repr(["é\n"])
    assert str(marked) is marked


def test_indexing_with_a_string_raises_as_it_does_on_a_plain_string() -> None:
    with pytest.raises(TypeError):
        Marked("abc")["content"]  # type: ignore[index]
    with pytest.raises(IndexError):
        Marked("abc")[3]
