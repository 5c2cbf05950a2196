"""Tiny projectors as files: reproducible, small, cached beside the models."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.tiny import PROJECTORS, ensure_projector, write_projector
from spanparse.errors import SourceError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache directory, so that no test sees or leaves a projector in the user's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", PROJECTORS)
def test_the_same_arguments_give_the_same_bytes(kind: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_projector(kind, tmp_path / name, width=64, seed=7)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("kind", PROJECTORS)
def test_a_projector_is_written_once_and_is_small(kind: str) -> None:
    path = ensure_projector(kind)
    written = path.stat()
    assert ensure_projector(kind) == path
    assert path.stat().st_mtime_ns == written.st_mtime_ns
    assert written.st_size < 1e6


def test_projectors_of_other_widths_are_other_files() -> None:
    assert ensure_projector("gemma3", width=64) != ensure_projector("gemma3", width=128)


@pytest.mark.parametrize(("kind", "width"), [("clip", 128), ("gemma3", 100), ("gemma3", 0)])
def test_what_cannot_be_made_is_refused_by_name(kind: str, width: int, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=kind):
        write_projector(kind, tmp_path / "mmproj.gguf", width=width)
    assert not list(tmp_path.iterdir())
