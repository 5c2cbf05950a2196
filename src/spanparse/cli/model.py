"""`spanparse model`: write a tiny model with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spanparse.cli import options
from spanparse.cli.output import console, print_line, progress, write_json


def model(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="The kind of memory: hybrid, swa, recurrent or dense.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The GGUF file to write.", show_default=False)],
    width: Annotated[
        int, typer.Option("--width", metavar="N", help="Embedding length; a wider model is slower, as real ones are.")
    ] = 128,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the random weights.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Write a tiny GGUF model with random weights.

    It says nothing sensible, but its memory is of a real kind.
    """
    from runtime.tiny import write_model
    from spanparse.cli.models import require_runtime

    require_runtime(kind, "writing a model")
    with progress() as display:
        display.add_task(f"the {kind} model", total=None)
        write_model(kind, out, width=width, seed=seed)
    size = out.stat().st_size
    if as_json:
        write_json({"schema_version": 1, "kind": kind, "path": str(out), "bytes": size, "width": width, "seed": seed})
    else:
        print_line(console(), f"{out}: {kind}, {size / 1e6:.1f} MB")
