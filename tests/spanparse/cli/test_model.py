from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_a_model_is_written_where_it_is_wanted(cli: Run, tmp_path: Path) -> None:
    found = cli("model", "recurrent", "--out", tmp_path / "m.gguf", "--width", 64, "--seed", 3, "--json").json
    assert found == {
        "schema_version": 1,
        "kind": "recurrent",
        "path": str(tmp_path / "m.gguf"),
        "bytes": (tmp_path / "m.gguf").stat().st_size,
        "width": 64,
        "seed": 3,
    }


def test_its_size_is_told(cli: Run, tmp_path: Path) -> None:
    assert " MB" in cli("model", "dense", "--out", tmp_path / "m.gguf", "--width", 64).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["elephant"], "elephant: no such tiny model"),
        (["hybrid", "--width", 65], "hybrid: width 65 is not a positive multiple of 64"),
        (["hybrid", "--seed", -1], "hybrid: seed -1"),
    ],
)
def test_an_impossible_model_is_refused(cli: Run, tmp_path: Path, arguments: list[object], said: str) -> None:
    assert said in cli("model", *arguments, "--out", tmp_path / "m.gguf").error


def test_a_folder_that_is_not_there_is_named(cli: Run, tmp_path: Path) -> None:
    assert "none/m.gguf" in cli("model", "dense", "--out", tmp_path / "none" / "m.gguf").error
