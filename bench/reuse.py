"""How near the ideal a budget of checkpoints comes where conversations break prompt caches.

    python bench/reuse.py SCENARIOS.py [--template T] [--policy P]... [--checkpoints K]... [--forecast]
                          [--engine KIND]... [--json]

SCENARIOS.py holds `SCENARIOS`: by name, a function of a seed that returns (label, messages, tools) for each request of
a client, in order. For each seed all kinds are played one after the other on one memory that keeps branches; a row sums
over the seeds 1, 2 and 3. Ideal: what a prompt does not share with any earlier one, at least one token. With --forecast
the simulator plays them a second time, each plan told what the template will rewrite, as engines are not. With --engine
the tiny model of that kind plays them too, each seed on a fresh engine, with answers of four tokens; such a row names
the kind of its memory. The last rows, one for each K, are the optimum for anyone who knew all requests to come, on the
simulator's memory: what can be done, and what nobody can do with less (`planner.optimum.foresight`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from planner import POLICIES, Budget, PlanRequest, PolicyName
from planner.learning import Planner
from planner.simulation import Session
from planner.simulation.sweep import least_in_a_tree
from planner.simulation.tree import replay_tree
from spanparse.cli.traces import Dialogue, sessions_of
from spanparse.conversation import Conversation
from spanparse.sources import TemplateSource, load_source
from spanparse.tokens import HuggingFaceTokenizer

SEEDS = (1, 2, 3)
N_CTX = 262_144
_LINE = "{source:19} {policy:14} {checkpoints:3} {evaluated:8,} / {ideal:8,} = {ratio:.4f}"
_BOUNDS = f"{_LINE}, at least {{least:,}}"


def requests(path: str, seed: int) -> Iterator[tuple[str, Conversation]]:
    """The kind of each request and the request, all kinds in order."""
    spec = importlib.util.spec_from_file_location("scenarios", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, scenario in module.SCENARIOS.items():
        for _, messages, tools in scenario(zlib.crc32(f"{name}{seed}".encode())):
            yield name, Conversation(messages, tools)


def simulated(
    sessions: Sequence[Session], policy: PolicyName, checkpoints: int, source: str = "simulator"
) -> dict[str, Any]:
    """The row of a policy and a budget, as the simulator counts."""
    base = PlanRequest(1, policy=policy, budget=Budget(checkpoints))
    outcomes = [outcome for session in sessions for outcome in replay_tree(session, base, Planner())]
    return row(source, policy, checkpoints, [(o.evaluated, o.bound) for o in outcomes])


def played_on(
    kind: str, seeds: Sequence[Sequence[Conversation]], template: TemplateSource, policy: PolicyName, checkpoints: int
) -> dict[str, Any]:
    """The row of a policy and a budget, as engines on the tiny model of a kind count."""
    from runtime import Engine, Request
    from runtime.tiny import ensure_model

    counts = []
    for conversations in seeds:
        # Room for all of a seed: a dense memory is to show what it keeps, not what it gives up.
        with Engine(
            ensure_model(kind), template=template, policy=policy, checkpoints=checkpoints, n_ctx=N_CTX, n_threads=1
        ) as engine:
            for conversation in conversations:
                request = Request(conversation.messages, conversation.tools, max_tokens=4)
                report = engine.generate(request).report
                counts.append((report.evaluated, report.ideal))
    return row(f"engine, {kind}", policy, checkpoints, counts)


def foreseen(sessions: Sequence[Session], checkpoints: int, ideal: int) -> dict[str, Any]:
    """The row of a budget in the hands of someone who knew the future: `evaluated` can be done, `least` is a bound."""
    least, evaluated = least_in_a_tree(sessions, checkpoints)
    return {**row("foresight", "optimum", checkpoints, [(evaluated, ideal)]), "least": least}


def row(source: str, policy: str, checkpoints: int, counts: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """What `counts`, (evaluated, ideal) of each request, come to."""
    evaluated, ideal = (sum(column) for column in zip(*counts, strict=True))
    ratio = round(evaluated / ideal, 4)
    return {
        "source": source,
        "policy": policy,
        "checkpoints": checkpoints,
        "evaluated": evaluated,
        "ideal": ideal,
        "ratio": ratio,
    }


def main() -> None:
    from runtime.tiny import KINDS, vocabulary

    parser = argparse.ArgumentParser(description="How near the ideal a budget of checkpoints comes.")
    parser.add_argument("scenarios", type=Path)
    parser.add_argument("--template", default="chatml")
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--checkpoints", action="append", type=int)
    parser.add_argument("--engine", action="append", default=[], choices=KINDS)
    parser.add_argument("--forecast", action="store_true", help="also plan with what the template will rewrite")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    backend = HuggingFaceTokenizer(vocabulary.hf_tokenizer(), name="tiny")
    template = load_source(given.template, tools=True)
    played = [Dialogue(f"seed {seed}", [r for _, r in requests(given.scenarios, seed)]) for seed in SEEDS]
    simulations = {"simulator": sessions_of(played, template, backend, lambda _: None)}
    if given.forecast:
        simulations["simulator, forecast"] = sessions_of(played, template, backend, lambda _: None, forecast=True)
    seeds = [dialogue.requests for dialogue in played]
    budgets = given.checkpoints or [8, 32]
    rows: list[dict[str, Any]] = []

    def add(found: dict[str, Any], line: str = _LINE) -> None:
        rows.append(found)
        if not given.json:
            sys.stdout.write(line.format(**found) + "\n")
            sys.stdout.flush()

    for policy in given.policy or ["adaptive", "barriers", "near-end-pair", "marconi"]:
        for checkpoints in budgets:
            for source, sessions in simulations.items():
                add(simulated(sessions, policy, checkpoints, source))
            for kind in given.engine:
                add(played_on(kind, seeds, template, policy, checkpoints))
    for checkpoints in budgets:
        add(foreseen(simulations["simulator"], checkpoints, rows[0]["ideal"]), _BOUNDS)
    if given.json:
        json.dump({"schema_version": 1, "template": given.template, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
