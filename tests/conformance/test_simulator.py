"""The simulator's tree counts what the runtime evaluates, token for token."""

from __future__ import annotations

import importlib.util
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner import Budget, PlanRequest
from planner.learning import Planner
from planner.simulation.tree import replay_tree
from runtime import Engine, Request
from runtime.tiny import ensure_model
from spanparse.cli.traces import Dialogue, sessions_of
from spanparse.conversation import Conversation
from spanparse.tokens import LlamaVocabulary

AGENT = Path(__file__).parents[2] / "fixtures" / "conversations" / "agent.json"
SCENARIOS = Path(__file__).resolve().parents[3] / "shared" / "tools" / "scenarios.py"


def agent() -> Iterator[Conversation]:
    """One request for each answer of the agent's conversation, then one that goes back to its beginning."""
    body = json.loads(AGENT.read_text(encoding="utf-8"))
    for index, message in enumerate(body["messages"]):
        if message["role"] == "assistant":
            yield Conversation(body["messages"][:index], body["tools"])
    yield Conversation([*body["messages"][:1], {"role": "user", "content": "Something else."}], body["tools"])


def scenarios() -> dict[str, Any]:
    """The reference scenarios by name."""
    spec = importlib.util.spec_from_file_location("scenarios", SCENARIOS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.SCENARIOS)


def check(requests: list[Conversation], kind: str, policy: Any, checkpoints: int) -> None:
    budget = Budget(checkpoints)
    options = {"policy": policy, "checkpoints": checkpoints, "n_ctx": 32_768, "n_threads": 1}
    with Engine(ensure_model(kind), **options) as engine:  # type: ignore[arg-type]
        backend = LlamaVocabulary(engine.model.pointer)
        (session,) = sessions_of([Dialogue("played", requests)], engine.template, backend, lambda _: None)
        base = PlanRequest(1, policy=policy, budget=budget)
        expected = [(o.length, o.evaluated, o.saves) for o in replay_tree(session, base, Planner())]
        reports = []
        for request in requests:
            reports.append(engine.generate(Request(request.messages, tools=request.tools, max_tokens=1)).report)
            engine.tree.check_integrity()
    assert [(report.prompt_tokens, report.evaluated, report.saves) for report in reports] == expected


@pytest.mark.parametrize("kind", ["hybrid", "recurrent"])
@pytest.mark.parametrize("policy", ["adaptive", "barriers"])
def test_an_agents_conversation_costs_what_was_simulated(kind: str, policy: Any) -> None:
    check(list(agent()), kind, policy, 3)


@pytest.mark.skipif(not SCENARIOS.exists(), reason=f"no {SCENARIOS.name}")
@pytest.mark.parametrize("checkpoints", [8, 32])
def test_every_request_of_all_scenarios_on_one_engine_costs_what_was_simulated(checkpoints: int) -> None:
    played = [
        Conversation(messages, tools)
        for name, scenario in scenarios().items()
        for _, messages, tools in scenario(zlib.crc32(f"{name}1".encode()))
    ]
    check(played, "hybrid", "adaptive", checkpoints)
