"""An agent's conversation from end to end: rendered, tokenised, planned, restored, answered as from nothing."""

from __future__ import annotations

import ctypes
import importlib.util
import json
from pathlib import Path

import pytest

from runtime import Engine, Request, Verifier
from runtime.llama import lib
from runtime.tiny import KINDS, ensure_model
from spanparse import render_plain, request_of

CONVERSATION = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "conversations" / "agent.json").read_text(encoding="utf-8")
)
SCENARIOS = Path(__file__).resolve().parents[3] / "shared" / "tools" / "scenarios.py"
TURNS = [index for index, message in enumerate(CONVERSATION["messages"]) if message["role"] == "assistant"]
OPTIONS = {"n_ctx": 4096, "n_threads": 1, "exact": True}


def requests(max_tokens=4):
    """The requests that led to the conversation, one before each message of the assistant."""
    messages, tools = CONVERSATION["messages"], CONVERSATION["tools"]
    return [Request(messages[:turn], tools=tools, max_tokens=max_tokens) for turn in TURNS]


def scenarios():
    """The reference scenarios by name."""
    spec = importlib.util.spec_from_file_location("scenarios", SCENARIOS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SCENARIOS


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_that_of_a_cold_run_and_little_is_evaluated_twice(kind):
    evaluated = ideal = 0
    with Engine(ensure_model(kind), checkpoints=8, **OPTIONS) as engine, Verifier(engine) as verifier:
        for number, request in enumerate(requests()):
            completion = engine.generate(request)
            # Cold runs are what takes the time; among those compared is the turn that drops the reasoning (number 7).
            if kind == "hybrid" or number % 3 == 1:
                verdict = verifier.check(completion)
                # In a restored window sums run in another order: rounding may choose between tokens equally likely.
                assert verdict.identical or (kind == "swa" and verdict.gap is not None and verdict.gap < 0.05)
            engine.tree.check_integrity()
            report = completion.report
            assert sum(excess.tokens for excess in report.excess) == max(0, report.evaluated - report.ideal)
            evaluated, ideal = evaluated + report.evaluated, ideal + report.ideal
    assert evaluated <= 1.05 * ideal


@pytest.mark.skipif(not SCENARIOS.exists(), reason=f"no {SCENARIOS.name}")
@pytest.mark.parametrize("kind", ["hybrid", "swa"])
def test_conversations_that_branch_return_and_interleave_are_answered_as_from_nothing(kind):
    """All kinds of scenarios on one engine, whose cells do not hold them all."""
    options = {**OPTIONS, "n_ctx": 8192}
    with Engine(ensure_model(kind), checkpoints=6, **options) as engine, Verifier(engine) as verifier:
        reports = []
        for name, scenario in scenarios().items():
            played = scenario(len(name))
            for number, (_, messages, tools) in enumerate(played[:4] + played[4:][-3:]):
                completion = engine.generate(Request(messages, tools, max_tokens=4), logits=True)
                engine.tree.check_integrity()
                reports.append(completion.report)
                if number % 3 == 2:
                    verdict = verifier.check(completion)
                    assert verdict.logit_error < (0.05 if kind == "swa" else 1e-3), name
                    assert verdict.identical or (verdict.gap is not None and verdict.gap < 0.05), name
    assert "ram" in {report.restored.source for report in reports if report.restored}
    assert "evicted" in {excess.reason for report in reports for excess in report.excess}


def test_without_checkpoints_most_is_evaluated_twice():
    with Engine(ensure_model("hybrid"), policy="none", **OPTIONS) as engine:
        reports = [engine.generate(request).report for request in requests()]
    assert sum(report.evaluated for report in reports) > 3 * sum(report.ideal for report in reports)
    assert {excess.reason for report in reports for excess in report.excess} == {"state-missing"}


def test_a_budget_in_bytes_is_kept_and_still_serves():
    with Engine(ensure_model("hybrid"), checkpoint_bytes=400_000, **OPTIONS) as engine:
        reports = [engine.generate(request).report for request in requests(max_tokens=1)]
        assert max(report.bytes for report in reports) <= 400_000
    assert sum(report.evaluated for report in reports) <= 1.05 * sum(report.ideal for report in reports)


def test_token_ids_are_llama_cpps_own():
    with Engine(ensure_model("recurrent"), **OPTIONS) as engine:
        vocabulary = lib.llama_model_get_vocab(engine.model.pointer)
        for request in requests(max_tokens=0):
            text = render_plain(
                engine.template.text, request_of(engine.template, request.messages, tools=request.tools)
            )
            data, ids = text.encode(), (ctypes.c_int32 * len(text.encode()))()
            count = lib.llama_tokenize(vocabulary, data, len(data), ids, len(ids), True, True)
            assert list(engine.generate(request).token_ids) == ids[:count]
