from __future__ import annotations

import subprocess
import sys
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
        (["hybrid", "--width", 65], "hybrid: width 65 is not a positive multiple of 64 up to 4096"),
        (["hybrid", "--width", 1_000_000], "hybrid: width 1000000 is not"),
        (["hybrid", "--seed", -1], "hybrid: seed -1"),
    ],
)
def test_an_impossible_model_is_refused(cli: Run, tmp_path: Path, arguments: list[object], said: str) -> None:
    assert said in cli("model", *arguments, "--out", tmp_path / "m.gguf").error


def test_a_folder_that_is_not_there_is_named(cli: Run, tmp_path: Path) -> None:
    assert "none/m.gguf" in cli("model", "dense", "--out", tmp_path / "none" / "m.gguf").error


def test_a_disk_that_fills_up_leaves_the_model_that_was_there(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of file sizes are Unix's")
    path = tmp_path / "m.gguf"
    path.write_bytes(b"good")
    code = "import sys; from spanparse.cli import main; sys.exit(main())"
    found = subprocess.run(
        [sys.executable, "-c", code, "model", "dense", "--out", path, "--width", "64"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert found.stderr.startswith(f"spanparse: {path}: cannot be written (")
    assert "None" not in found.stderr
    assert path.read_bytes() == b"good"
    assert list(tmp_path.iterdir()) == [path]
