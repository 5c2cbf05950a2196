"""A text's characters as a list are those of an ordinary list, each with its mark."""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import Any

import pytest

from spanparse import Request, render_plain
from spanparse.marks.letters import Letters
from spanparse.marks.marked import Marked, runs_of
from spanparse.marks.origin import Origin
from spanparse.rendering.render import render_marked

CONTENT = Origin(("messages", 0, "content"))


@pytest.mark.parametrize(
    "look",
    [
        len,
        list,
        repr,
        sorted,
        lambda letters: letters[1],
        lambda letters: letters[::-1],
        lambda letters: add(letters, ["x"]),
        lambda letters: add(["x"], letters),
        lambda letters: letters * 2,
        lambda letters: "e" in letters,
        lambda letters: letters == list("hello"),
        lambda letters: [*reversed(letters)],
        lambda letters: (letters.index("l"), letters.count("l"), letters.copy()),
        lambda letters: "-".join(letters),
        lambda letters: dict.fromkeys(letters),
        lambda letters: bool(letters),
    ],
)
def test_letters_look_like_a_list(look: Callable[[Any], Any]) -> None:
    assert look(Letters(Marked.whole("hello", CONTENT, 0))) == look(list("hello"))


@pytest.mark.parametrize(
    ("template", "text", "offsets"),
    [
        ("{{ messages[0].content | list | join }}", "hello", [0]),
        ("{{ (messages[0].content | list)[1:3] | join }}", "el", [1, 2]),
        ("{{ messages[0].content | list | reverse | join }}", "olleh", [4, 3, 2, 1, 0]),
        ("{{ messages[0].content | list | join('-') }}", "h-e-l-l-o", [0, 1, 2, 3, 4]),
        ("{% set c = messages[0].content | list %}{{ c | length }}{{ c | join }}", "5hello", [0]),
        ("{{ messages[0].content | list | sort | first }}", "e", [1]),
        ("{{ messages[0].content | list | map('upper') | join }}", "HELLO", [-1] * 5),
    ],
)
def test_each_letter_keeps_its_place(template: str, text: str, offsets: list[int]) -> None:
    request = Request([{"role": "user", "content": "hello"}])
    marked = render_marked(template, request)
    assert str.__str__(marked) == text == render_plain(template, request)
    assert [run.source for run in runs_of(marked) if run.origin == CONTENT] == offsets
