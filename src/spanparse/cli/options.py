"""The arguments and options that several commands share, spelled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from spanparse.errors import SpanparseError

if TYPE_CHECKING:
    from planner import PolicyName

# typer reads these when a command's signature is evaluated, so they are ordinary module names.
_source = typer.Argument(
    metavar="SOURCE",
    help="A .gguf file, a Hugging Face folder, a .jinja file, - for standard input, the name of a bundled template "
    "or of a tiny model.",
    show_default=False,
)
Source = Annotated[str, _source]
OptionalSource = Annotated[str | None, _source]
Variant = Annotated[
    str | None, typer.Option("--variant", metavar="NAME", help="Which template, where SOURCE has several.")
]
Messages = Annotated[
    str | None,
    typer.Option(
        "--messages",
        metavar="FILE",
        help="JSON: a list of messages, or an object with messages, tools and kwargs; - for standard input. "
        "[default: a built-in sample]",
    ),
]
Tools = Annotated[str | None, typer.Option("--tools", metavar="FILE", help="JSON: a list of tools.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A template variable; JSON if it parses, else a string."),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="FILE|DIR|GGUF|KIND",
        help="A tokenizer.json or its folder, a .gguf file, or a tiny model's name. [default: what SOURCE carries]",
    ),
]
Mmproj = Annotated[
    str | None,
    typer.Option(
        "--mmproj",
        metavar="GGUF|KIND",
        help="A projector file, or a tiny projector's name (gemma3, qwen2vl, qwen3vl, internvl, qwen3a): how many "
        "tokens media take, exactly. [default: estimates]",
    ),
]
TrustContent = Annotated[
    bool, typer.Option("--trust-content", help="Let text of messages be read as control tokens too.")
]
NoGenerationPrompt = Annotated[
    bool, typer.Option("--no-generation-prompt", help="Do not ask the template to begin the next answer.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Checkpoints = Annotated[
    int | None, typer.Option("--checkpoints", metavar="K", min=0, help="How many checkpoints may exist. [default: 8]")
]
CheckpointBytes = Annotated[
    int | None, typer.Option("--checkpoint-bytes", metavar="B", min=0, help="How many bytes all checkpoints may take.")
]
Policy = Annotated[
    str, typer.Option("--policy", metavar="P", help="How checkpoints are placed; an unknown name lists the policies.")
]


_Name = TypeVar("_Name", bound=str)


def chosen(name: str, names: Sequence[_Name], option: str, what: str) -> _Name:
    """The one of `names` that was given; raises `SpanparseError` listing them all."""
    for known in names:
        if known == name:
            return known
    raise SpanparseError(f"{option}: no {what} {name} ({', '.join(names)})")


def known_policy(name: str) -> PolicyName:
    """The placement policy of that name."""
    from planner import POLICIES

    return chosen(name, POLICIES, "--policy", "policy")
