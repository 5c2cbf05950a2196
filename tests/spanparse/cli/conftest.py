from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spanparse.cli import main

REPOSITORY = Path(__file__).resolve().parents[3]


class Outcome(NamedTuple):
    """What a command left: its exit code and what it wrote to the two streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on standard error of a command that could not run."""
        assert self.code == 2
        assert self.out == ""
        assert self.err.startswith("spanparse: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("spanparse: ").strip()


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs `spanparse` with the given arguments, in the repository's top folder."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def conversation(tmp_path: Path) -> Callable[[object], Path]:
    """Writes a conversation to a file and gives its path."""

    def write(data: object) -> Path:
        path = tmp_path / "conversation.json"
        path.write_text(json.dumps(data), "utf-8")
        return path

    return write
