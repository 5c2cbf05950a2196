"""How near the bound a line of few checkpoints stays where templates drop reasoning, and with a forecast of that.

    python bench/dialogues.py DIALOGUES.jsonl [LIMIT]

Each line holds a dialogue (`id`, `messages`). Every assistant message is given reasoning of 20 to 120 seeded words,
tools are inferred from the calls, and a dialogue is played with one request for each assistant message.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from planner import Budget, PlanRequest
from planner.simulation.sweep import sweep
from spanparse.cli.traces import Dialogue, read_dialogues, sessions_of
from spanparse.sources import load_source
from spanparse.tokens import Backend, HuggingFaceTokenizer

TEMPLATES = ("chatml", "gpt-oss", "gemma4")
CHECKPOINTS = (1, 2, 4, 8)
WORDS = (
    "the user wants to change a flight so first look up that reservation then check fare rules cabin and passengers "
    "before asking for a confirmation because policy says no refunds without insurance or delay compensation"
)


def with_reasoning(dialogue: dict[str, Any], seed: int) -> dict[str, Any]:
    """The dialogue with reasoning on every assistant message and the tools that its calls imply."""
    pick, words = random.Random(seed), WORDS.split()
    messages, tools = [], {}
    for message in dialogue["messages"]:
        if message["role"] == "assistant":
            reasoning = " ".join(pick.choice(words) for _ in range(pick.randint(20, 120)))
            message = {**message, "reasoning_content": reasoning}
            for call in message.get("tool_calls") or ():
                tools[call["function"]["name"]] = schema(call["function"])
        messages.append(message)
    return {"id": dialogue["id"], "messages": messages, "tools": [tools[name] for name in sorted(tools)]}


def schema(function: dict[str, Any]) -> dict[str, Any]:
    """A tool's definition, from one call of it."""
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    arguments = json.loads(function["arguments"])
    properties = {name: {"type": names.get(type(value), "string")} for name, value in arguments.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": function["name"], "description": "", "parameters": parameters}}


def dialogues(path: str, limit: int) -> list[Dialogue]:
    """The first `limit` dialogues of a file, with reasoning."""
    lines = Path(path).read_text().splitlines()[:limit]
    made = [json.dumps(with_reasoning(json.loads(line), seed)) for seed, line in enumerate(lines)]
    return read_dialogues("\n".join(made).encode(), path, requests=False)


def ratios(played: list[Dialogue], template: str, backend: Backend, *, forecast: bool) -> list[float]:
    """Evaluated tokens over the bound, for each budget."""
    sessions = sessions_of(played, load_source(template, tools=True), backend, lambda _: None, forecast=forecast)
    bases = [PlanRequest(1, budget=Budget(checkpoints)) for checkpoints in CHECKPOINTS]
    return [result.totals.ratio for result in sweep(sessions, bases)]


def main() -> None:
    from runtime.tiny import vocabulary

    backend = HuggingFaceTokenizer(vocabulary.hf_tokenizer(), name="tiny")
    played = dialogues(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
    requests = sum(len(dialogue.requests) for dialogue in played)
    sys.stdout.write(f"{len(played)} dialogues, {requests} requests, times the bound with {CHECKPOINTS} checkpoints\n")
    for template in TEMPLATES:
        for forecast in (False, True):
            found = " ".join(f"{ratio:.4f}" for ratio in ratios(played, template, backend, forecast=forecast))
            sys.stdout.write(f"{template:10} {'forecast' if forecast else '':8} {found}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
