"""Tiny models as files: what they hold, that they are reproducible, and how they are cached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.tiny import KINDS, ensure_model, write_model
from runtime.tiny.cache import cache_directory
from spanparse.errors import MissingExtra, SourceError
from spanparse.sources import bundled_template

gguf = pytest.importorskip("gguf", reason="gguf is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, so that no test sees or leaves a model in the user's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_directory()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_arguments_give_the_same_bytes(kind: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_model(kind, tmp_path / name, width=64, seed=7)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_model("dense", tmp_path / str(seed), width=64, seed=seed)
    assert (tmp_path / "1").read_bytes() != (tmp_path / "2").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_a_few_megabytes(kind: str, tmp_path: Path) -> None:
    write_model(kind, tmp_path / "model.gguf")
    assert 1e6 < (tmp_path / "model.gguf").stat().st_size < 10e6


def test_the_bundled_chatml_template_is_embedded(tmp_path: Path) -> None:
    write_model("dense", tmp_path / "model.gguf", width=64)
    field = gguf.GGUFReader(tmp_path / "model.gguf").get_field("tokenizer.chat_template")
    assert field.contents() == bundled_template("chatml")


def test_another_template_can_be_embedded(tmp_path: Path) -> None:
    write_model("dense", tmp_path / "model.gguf", width=64, template="{{ messages }} ✓")
    field = gguf.GGUFReader(tmp_path / "model.gguf").get_field("tokenizer.chat_template")
    assert field.contents() == "{{ messages }} ✓"


@pytest.mark.parametrize(
    ("kind", "is_recurrent", "is_hybrid", "n_swa"),
    [("hybrid", False, True, 0), ("swa", False, False, 128), ("recurrent", True, False, 0), ("dense", False, False, 0)],
)
@pytest.mark.parametrize("width", [64, 192])
def test_llama_cpp_sees_the_memory_of_the_kind(
    kind: str, is_recurrent: bool, is_hybrid: bool, n_swa: int, width: int, tmp_path: Path
) -> None:
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    write_model(kind, tmp_path / "model.gguf", width=width)
    path = str(tmp_path / "model.gguf").encode()
    model = llama_cpp.llama_model_load_from_file(path, llama_cpp.llama_model_default_params())
    assert model
    try:
        assert llama_cpp.llama_model_is_recurrent(model) == is_recurrent
        assert llama_cpp.llama_model_is_hybrid(model) == is_hybrid
        assert llama_cpp.llama_model_n_swa(model) == n_swa
        assert llama_cpp.llama_model_n_embd(model) == width
        assert llama_cpp.llama_model_n_ctx_train(model) == 262_144
    finally:
        llama_cpp.llama_model_free(model)


def test_an_unknown_kind_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^rwkv: no such tiny model \(hybrid, swa, recurrent, dense\)$"):
        write_model("rwkv", tmp_path / "model.gguf")


@pytest.mark.parametrize("width", [-64, 0, 32, 100, 64_000_000])
def test_an_impossible_width_is_refused(width: int, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"^dense: width {width} is not a positive multiple of 64 up to 4096$"):
        write_model("dense", tmp_path / "model.gguf", width=width)
    assert not (tmp_path / "model.gguf").exists()


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_an_impossible_seed_is_refused(seed: int, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"^dense: seed {seed} is not within"):
        write_model("dense", tmp_path / "model.gguf", seed=seed)


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no/such/model\.gguf: cannot be written \(No such file or directory\)"):
        write_model("dense", tmp_path / "no" / "such" / "model.gguf")


def test_a_missing_writer_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "runtime.tiny.file", raising=False)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match=r"not installed: pip install '\.\[runtime\]' in its source folder$"):
        write_model("dense", tmp_path / "model.gguf")


def test_importing_the_package_and_its_vocabulary_loads_no_optional_module() -> None:
    code = (
        "import sys, runtime.tiny.vocabulary as v; v.hf_tokenizer(); "
        "print(sorted({'gguf', 'numpy', 'llama_cpp'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_model_is_written_into_the_cache_once(cache: Path) -> None:
    first = ensure_model("recurrent", width=64)
    written = first.stat()
    assert first.parent == cache
    assert ensure_model("recurrent", width=64) == first
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == (written.st_mtime_ns, written.st_ino)
    assert list(cache.iterdir()) == [first]


def test_a_cached_model_equals_a_written_one(tmp_path: Path) -> None:
    write_model("recurrent", tmp_path / "model.gguf", width=64, seed=3)
    assert ensure_model("recurrent", width=64, seed=3).read_bytes() == (tmp_path / "model.gguf").read_bytes()


def test_kind_width_and_seed_have_files_of_their_own() -> None:
    paths = {ensure_model("dense", width=64), ensure_model("swa", width=64), ensure_model("dense", width=64, seed=1)}
    assert len(paths) == 3


def test_a_changed_template_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ensure_model("dense", width=64)
    for module in ("cache", "model"):
        monkeypatch.setattr(f"runtime.tiny.{module}.default_template", lambda: "{{ messages }}")
    assert ensure_model("dense", width=64) != before


def test_an_interrupted_write_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arch: object, path: Path, **_: object) -> None:
        path.write_bytes(b"GGUF")
        raise KeyboardInterrupt

    monkeypatch.setattr("runtime.tiny.file.write_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure_model("dense", width=64)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SourceError, match=r"file/spanparse/dense-.*: cannot be written \(Not a directory\)"):
        ensure_model("dense")
