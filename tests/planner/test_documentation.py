"""The example of docs/planner.md runs, prints what the page shows, and keeps an engine right."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

from planner import POLICIES
from planner.policies.registry import REGISTRY

PAGE = (Path(__file__).parents[2] / "docs" / "planner.md").read_text("utf-8")


class Engine:
    """A recurrent memory: its state is a digest of all tokens so far, and cannot be cut. Time is made up: 2 ms a token.

    decoded: tokens of prompts evaluated so far.
    """

    seconds_per_token = 0.002

    def __init__(self) -> None:
        self.state = 0
        self.decoded = 0
        self.clock = 0.0
        self.deadline = float("inf")

    def decode(self, tokens: list[int]) -> None:
        """Evaluate; where the client gives up first, part of the tokens are in the state for good."""
        for token in tokens:
            self.state = hash((self.state, token))
            self.clock += self.seconds_per_token
            if self.clock > self.deadline:
                raise TimeoutError
        self.decoded += len(tokens)

    def save(self) -> int:
        """A copy of the state."""
        return self.state

    def load(self, state: int | None) -> None:
        """Go back to a copy, or to an empty memory."""
        self.state = state or 0

    def answer(self, length: int) -> list[int]:
        """Decode tokens of an answer."""
        answer = [-1] * length
        self.decode(answer)
        self.decoded -= length
        return answer

    def cut_after(self, seconds: float) -> None:
        """The client of the next prompts gives up so many seconds from now."""
        self.deadline = self.clock + seconds


def blocks(language: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def played() -> tuple[dict[str, Any], list[str]]:
    """The names of the page's code, `line` and `branches` among them, and what each of its blocks prints.

    Each section has an engine of its own.
    """
    names: dict[str, Any] = {}
    printed = []
    for section in PAGE.split("\n## "):
        names["engine"] = Engine()
        for code in blocks("python", section):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, "docs/planner.md", "exec"), names)
            if output.getvalue():
                printed.append(output.getvalue())
    return names, printed


def test_the_examples_print_what_the_page_shows() -> None:
    assert played()[1] == blocks("text")


def test_the_examples_leave_the_engine_as_if_nothing_had_been_reused() -> None:
    names, _ = played()
    for memory, prompt in ((names["line"], names["question"]), (names["branches"], names["branches"].prompts[-1])):
        cold = Engine()
        cold.decode(prompt)
        assert memory.engine.state == cold.state
    assert names["line"].stored[79_000 - 4] != names["line"].engine.state


def test_the_example_takes_thirty_lines_and_its_engine_sixty() -> None:
    code = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(code) <= 32
    assert len(inspect.getsource(Engine).splitlines()) <= 60


def test_the_table_of_policies_is_the_registry() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(name, policy.saves, policy.gives_up) for name, policy in REGISTRY.items()]


def test_every_policy_that_has_a_name_is_built() -> None:
    assert sorted(REGISTRY) == list(POLICIES)
