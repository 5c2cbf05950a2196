"""`spanparse demo`: what checkpoints are worth in one agent conversation on a hybrid model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.table import Table

from spanparse.cli import comparison, options
from spanparse.cli.comparison import Result
from spanparse.cli.output import console, progress, write_json
from spanparse.cli.tables import new_table, show_table
from spanparse.sources import bundled_data

if TYPE_CHECKING:
    from runtime import Request

_MODEL: Final = "hybrid"
_CONVERSATION: Final = "agent.json"
_FINDINGS: Final = 1


def demo(as_json: options.Json = False) -> None:
    """Play an agent conversation under every policy.

    On a tiny hybrid model, without checkpoints first. Exit code 1 if an answer differs from the one without any reuse.
    """
    from spanparse.cli.models import find_model, require_runtime

    require_runtime("demo", "running a model")
    from planner import POLICIES
    from spanparse.conversation import load_conversation

    folder = bundled_data("conversations", in_repository="fixtures/conversations")
    conversation = load_conversation((folder / _CONVERSATION).read_bytes())
    model = find_model(_MODEL)
    requests = comparison.requests_of(conversation)
    # Worst first: what a model without checkpoints costs is what the others are compared with.
    policies = sorted(POLICIES, key=lambda policy: policy != "none")
    with progress() as display:
        task = display.add_task("", total=len(requests) * (len(policies) + 1))

        def advance(what: str) -> None:
            display.update(task, description=what, advance=1)

        results = comparison.compare(model, requests, policies, advance)
    if as_json:
        write_json({"schema_version": 1, "model": _MODEL, "results": [_json(result) for result in results]})
    else:
        _show(requests, results)
    if not all(result.identical for result in results):
        raise typer.Exit(_FINDINGS)


def _json(result: Result) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "evaluated": result.evaluated,
        "ideal": result.ideal,
        "ratio": round(result.ratio, 4),
        "identical": result.identical,
        "turns": [{**asdict(turn), "seconds": round(turn.seconds, 6)} for turn in result.turns],
    }


def _show(requests: Sequence[Request], results: Sequence[Result]) -> None:
    asked_by = [request.messages[-1]["role"] for request in requests]
    first = results[0].turns
    screen = console()
    screen.print(
        f"An agent conversation of {len(requests)} requests on the tiny {_MODEL} model. Each column is a request, "
        "named after the message that came last. When the user speaks, the template drops the reasoning before.\n",
        soft_wrap=True,
    )
    screen.print("Prompt tokens evaluated:")
    evaluated = _by_turn(
        asked_by, ("prompt", [turn.prompt_tokens for turn in first]), ("ideal", [t.ideal for t in first])
    )
    for result in results:
        evaluated.add_row(result.policy, *(str(turn.evaluated) for turn in result.turns))
    screen.print(evaluated, "")
    screen.print("Seconds to the first generated token:")
    waited = _by_turn(asked_by)
    for result in results:
        waited.add_row(result.policy, *(_seconds(turn.seconds) for turn in result.turns))
    screen.print(waited)
    show_table(screen, _summary(results))


def _by_turn(asked_by: Sequence[str], *rows: tuple[str, Sequence[int]]) -> Table:
    # A dozen columns fit a terminal of 80 characters only without rules and with one space between.
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for role in asked_by:
        table.add_column(role, justify="right", no_wrap=True)
    for name, numbers in rows:
        table.add_row(name, *map(str, numbers), style="dim")
    return table


def _summary(results: Sequence[Result]) -> Table:
    numbers = ("evaluated", "ideal", "ratio", "seconds to first token")
    table = new_table("policy", *numbers, "greedy output", right=numbers)
    for result in results:
        seconds = sum(turn.seconds for turn in result.turns)
        counts = (str(result.evaluated), str(result.ideal), f"{result.ratio:.2f}", _seconds(seconds))
        output = "as from nothing" if result.identical else "DIFFERS"
        table.add_row(result.policy, *counts, output, style=None if result.identical else "red")
    return table


def _seconds(seconds: float) -> str:
    """At most four characters below 1,000 seconds, so that the columns stay narrow."""
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}" if seconds < 100 else f"{seconds:.0f}"
