from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime import Engine, Request
from runtime.compiler import amx_is_miscompiled
from runtime.llama import lib
from runtime.tiny import ensure_model

WITH, WITHOUT = b"CPU : AVX512 = 1 | AMX_INT8 = 1 | REPACK = 1 | ", b"CPU : AVX512 = 1 | REPACK = 1 | "


@pytest.mark.parametrize(
    ("content", "info", "expected"),
    [
        (b"\0GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0", WITH, True),
        (b"\0GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0", WITHOUT, False),
        (b"\0GCC: (Ubuntu 13.2.0-23ubuntu4) 13.2.0\0", WITH, False),
        (b"\0clang version 17.0.6\0", WITH, False),
    ],
)
def test_it_is_told_by_the_compilers_name_in_the_library(tmp_path, content, info, expected):
    (tmp_path / "libggml-cpu.so").write_bytes(content)
    assert amx_is_miscompiled(tmp_path, info) is expected


def test_without_libraries_nothing_is_wrong(tmp_path):
    assert not amx_is_miscompiled(tmp_path, WITH)


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_quantised_weights_are_evaluated(tmp_path: Path, kind: str) -> None:
    """Where the compiler is such a one, the process would end here."""
    quantised = tmp_path / "q8.gguf"
    parameters = lib.llama_model_quantize_default_params()
    parameters.ftype = lib.LLAMA_FTYPE_MOSTLY_Q8_0
    assert lib.llama_model_quantize(os.fsencode(ensure_model(kind)), os.fsencode(quantised), parameters) == 0
    request = Request([{"role": "user", "content": "Hello. " * 100}], max_tokens=8)
    with Engine(quantised, n_ctx=2048, n_threads=1) as engine:
        first, second = engine.generate(request), engine.generate(request)
    assert first.output_ids == second.output_ids
    assert len(first.output_ids) == 8
