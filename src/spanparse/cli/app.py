"""The commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from spanparse.cli.analyse import analyse
from spanparse.cli.demo import demo
from spanparse.cli.inspect import inspect
from spanparse.cli.model import model
from spanparse.cli.plan import plan
from spanparse.cli.predict import predict
from spanparse.cli.run import run
from spanparse.cli.simulate import simulate

app = typer.Typer(
    name="spanparse",
    help="Exact message spans of chat templates, checkpoint plans made from them, and a runtime that executes them.",
    add_completion=False,
    # Plain help: brackets in it are not markup, and it reads the same in a terminal, a file and the documentation.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"spanparse {version('spanparse')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exit codes: 0 fine, 1 findings, 2 could not run."""


for command in (inspect, predict, analyse, plan, simulate, model, run, demo):
    app.command()(command)
