"""`spanparse demo`: what checkpoints are worth in one agent conversation on a hybrid model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from spanparse.cli import options
from spanparse.cli.output import console, progress, write_json
from spanparse.cli.tables import new_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from spanparse.cli.comparison import Result

_MODEL: Final = "hybrid"
_CONVERSATION: Final = "agent.json"
_FINDINGS: Final = 1


def demo(as_json: options.Json = False) -> None:
    """Play an agent conversation on a tiny hybrid model, without checkpoints and then with each policy."""
    from spanparse.cli.models import find_model, require_runtime

    require_runtime("demo", "running a model")
    from planner import POLICIES
    from spanparse.cli.comparison import compare, requests_of
    from spanparse.conversation import load_conversation
    from spanparse.sources import bundled_data

    folder = bundled_data("conversations", in_repository="fixtures/conversations")
    conversation = load_conversation((folder / _CONVERSATION).read_bytes())
    model = find_model(_MODEL)
    requests = requests_of(conversation)
    policies = ["none", *(name for name in POLICIES if name != "none")]
    with progress() as display:
        task = display.add_task("", total=len(requests) * (len(policies) + 1))

        def advance(what: str) -> None:
            display.update(task, description=what, advance=1)

        results = compare(model, requests, policies, advance)
    if as_json:
        write_json({"schema_version": 1, "model": _MODEL, "results": [_json(result) for result in results]})
    else:
        _show(results)
    if not all(result.identical for result in results):
        raise typer.Exit(_FINDINGS)


def _json(result: Result) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "evaluated": result.evaluated,
        "ideal": result.ideal,
        "ratio": round(result.ratio, 4),
        "identical": result.identical,
        "turns": [
            {
                "prompt_tokens": turn.prompt_tokens,
                "evaluated": turn.evaluated,
                "ideal": turn.ideal,
                "seconds": round(turn.seconds, 6),
            }
            for turn in result.turns
        ],
    }


def _show(results: Sequence[Result]) -> None:
    screen = console()
    turns = len(results[0].turns)
    screen.print(
        f"An agent conversation of {turns} requests on the tiny {_MODEL} model: tool rounds, several user turns, old "
        "reasoning left out by the template.\n",
        soft_wrap=True,
    )
    screen.print("Prompt tokens evaluated in each request, and milliseconds to the first generated token:")
    screen.print(_turn_table(results))
    screen.print(_policy_table(results))


def _turn_table(results: Sequence[Result]) -> Table:
    columns = ("request", "prompt", "ideal", *(result.policy for result in results))
    table = new_table(*columns, right=columns)
    for number, turns in enumerate(zip(*(result.turns for result in results), strict=True), 1):
        cells = [f"{turn.evaluated} {1000 * turn.seconds:4.0f}" for turn in turns]
        table.add_row(str(number), str(turns[0].prompt_tokens), str(turns[0].ideal), *cells)
    return table


def _policy_table(results: Sequence[Result]) -> Table:
    numbers = ("evaluated", "ideal", "ratio", "ms to first token")
    table = new_table("policy", *numbers, "output", right=numbers)
    for result in results:
        seconds = sum(turn.seconds for turn in result.turns)
        output = "as from nothing" if result.identical else "DIFFERS"
        counts = (str(result.evaluated), str(result.ideal), f"{result.ratio:.2f}", f"{1000 * seconds:.0f}")
        table.add_row(result.policy, *counts, output, style=None if result.identical else "red")
    return table
