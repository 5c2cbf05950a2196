"""The example of docs/planner.md runs, prints what the page shows, and keeps an engine right."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from planner import POLICIES

PAGE = (Path(__file__).parents[2] / "docs" / "planner.md").read_text("utf-8")


class Engine:
    """A recurrent memory: its state is a digest of all tokens so far, and cannot be cut."""

    def __init__(self) -> None:
        self.state = 0
        self.decoded = 0

    def decode(self, tokens: list[int]) -> None:
        for token in tokens:
            self.state = hash((self.state, token))
        self.decoded += len(tokens)

    def save(self) -> int:
        return self.state

    def load(self, state: int | None) -> None:
        self.state = state or 0

    def answer(self, length: int) -> list[int]:
        answer = [-1] * length
        self.decode(answer)
        self.decoded -= length
        return answer


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_prints_what_the_page_shows() -> None:
    engine, output = Engine(), io.StringIO()
    names: dict[str, Any] = {"engine": engine}
    with contextlib.redirect_stdout(output):
        for code in blocks("python"):
            exec(compile(code, "docs/planner.md", "exec"), names)
    assert output.getvalue() == blocks("text")[0]
    cold = Engine()
    cold.decode(names["second"])
    assert engine.state == cold.state
    assert engine.decoded == 944 + len(names["second"]) - 940


def test_the_example_takes_thirty_lines() -> None:
    assert len([line for line in blocks("python")[0].splitlines() if line.strip()]) <= 32


def test_every_policy_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == set(POLICIES)
