"""The simulator's line counts what the runtime evaluates, token for token."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner import Budget, PlanRequest
from planner.expectation.learning import Planner
from planner.simulation.line import replay_line
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
    """The reference scenarios by name; none where they are missing."""
    if not SCENARIOS.exists():
        return {}
    spec = importlib.util.spec_from_file_location("scenarios", SCENARIOS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.SCENARIOS)


def check(requests: list[Conversation], kind: str, policy: Any, checkpoints: int) -> None:
    budget = Budget(checkpoints)
    options = {"policy": policy, "checkpoints": checkpoints, "n_ctx": 16_384, "n_threads": 1}
    with Engine(ensure_model(kind), **options) as engine:  # type: ignore[arg-type]
        backend = LlamaVocabulary(engine.model.pointer)
        (session,) = sessions_of([Dialogue("played", requests)], engine.template, backend, lambda _: None)
        base = PlanRequest(1, policy=policy, budget=budget)
        expected = [(o.length, o.evaluated, o.saves) for o in replay_line(session, base, Planner())]
        reports = [engine.generate(Request(r.messages, tools=r.tools, max_tokens=1)).report for r in requests]
    assert [(report.prompt_tokens, report.evaluated, report.saves) for report in reports] == expected


@pytest.mark.parametrize("kind", ["hybrid", "recurrent"])
@pytest.mark.parametrize("policy", ["adaptive", "barriers"])
def test_an_agents_conversation_costs_what_was_simulated(kind: str, policy: Any) -> None:
    check(list(agent()), kind, policy, 3)


@pytest.mark.parametrize("name", scenarios() or [pytest.param(None, marks=pytest.mark.skip(f"no {SCENARIOS.name}"))])
def test_every_request_of_a_scenario_costs_what_was_simulated(name: str) -> None:
    played = scenarios()[name](7)
    check([Conversation(messages, tools) for _, messages, tools in played], "hybrid", "adaptive", 8)
