from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.cli.output import console, one_line, printable, printable_lines, write_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.text(st.characters(exclude_categories=())))
def test_printable_text_holds_no_character_that_acts_on_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u200f")


def test_ordinary_text_is_printable_as_it_is() -> None:
    text = "Grüße an 東京 — «naïve» 👋🏽"
    assert printable(text) == text
    assert printable_lines("a\nb\t") == "a\nb␉"


def test_an_error_keeps_to_one_line_of_bounded_length() -> None:
    assert one_line("a\n  b\r\nc") == "a b c"
    assert len(one_line("x" * 10_000)) == 500


def test_a_long_error_says_what_it_is_about_and_what_is_wrong() -> None:
    line = one_line("/" + "a" * 5000 + ": File name too long")
    assert line.startswith("/aaa")
    assert line.endswith("a: File name too long")


@pytest.mark.parametrize("columns", ["0", "-1", "x"])
def test_a_width_of_the_screen_that_is_none_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == 80


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@given(value=json_values)
def test_json_survives_any_encoding_of_standard_output(encoding: str, value: Any) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        write_json({"value": value})
    stream.flush()
    assert json.loads(raw.getvalue().decode(encoding)) == {"value": value}


def test_json_holds_no_character_that_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    acting = "".join(
        map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F)])
    )
    text = acting + "\u2066\u2069\ufeff\ud800é漢😀"
    write_json({text: [text]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {text: [text]}
    assert "é漢😀" in printed
    assert [character for character in acting if character in printed.replace("\n", "")] == []
