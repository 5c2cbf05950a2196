"""`spanparse inspect`: what a template makes of a conversation, and whose every character is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanparse.cli import options
from spanparse.cli.inspect_json import decision_json, inspection
from spanparse.cli.output import console, page, print_line, recording_console, write_json
from spanparse.cli.tables import rule_table, show_table, span_table, token_table
from spanparse.cli.view import prompt_view
from spanparse.errors import SourceError, SpanparseError
from spanparse.files import replacing
from spanparse.parse import explain

if TYPE_CHECKING:
    from rich.console import Console

    from spanparse.cli.prompt import Prompt
    from spanparse.ownership.owners import Decision
    from spanparse.tokens import TokenMap


def inspect(
    source: options.Source,
    variant: options.Variant = None,
    messages: options.Messages = None,
    tools: options.Tools = None,
    settings: options.Settings = None,
    tokenizer: options.Tokenizer = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="List every token with its span.")] = False,
    mmproj: options.Mmproj = None,
    trust_content: options.TrustContent = False,
    no_generation_prompt: options.NoGenerationPrompt = False,
    as_json: options.Json = False,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw",
            metavar="FILE",
            help="A prompt that is rendered already; - for standard input. Its spans are a guess and never exact.",
        ),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say of each stretch of the template's own text which rule gave it its owner.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the view as a page that needs no other file.")
    ] = None,
) -> None:
    """Show a rendered prompt and whose its characters are.

    Every message and part gets its span in characters and, with a tokenizer, in tokens.
    """
    from spanparse.cli.prompt import load_prompt, load_raw_prompt
    from spanparse.cli.tokenizer import map_tokens

    if as_json and html is not None:
        raise SpanparseError("--json and --html FILE exclude each other")
    if raw is not None and why:
        raise SpanparseError("--why asks a template, and --raw FILE has none")
    if raw is not None:
        if messages is not None or tools is not None or no_generation_prompt:
            raise SpanparseError("--raw FILE is a whole prompt: no --messages, --tools or --no-generation-prompt")
        prompt = load_raw_prompt(source, raw, variant=variant, settings=settings or ())
    else:
        prompt = load_prompt(
            source,
            variant,
            messages,
            tools,
            settings,
            add_generation_prompt=not no_generation_prompt,
            stability=as_json,  # the view shows no barriers
        )
    token_map, why_none = map_tokens(prompt, tokenizer, trust_content=trust_content, quick=not tokens, mmproj=mmproj)
    if tokens and token_map is None:
        raise SourceError(source, f"--tokens needs a tokenizer: {why_none}")
    if as_json:
        document = _document(prompt, token_map, list_tokens=tokens)
        if why:
            document["template_text"] = [decision_json(decision) for decision in _decisions(prompt)]
        write_json(document)
    elif html is None:
        _show(console(), prompt, token_map, why_none, list_tokens=tokens, why=why)
    else:
        recorded = recording_console()
        _show(recorded, prompt, token_map, why_none, list_tokens=tokens, why=why)
        with replacing(html) as draft:
            draft.write_text(page(recorded), "utf-8")


def _document(prompt: Prompt, token_map: TokenMap | None, *, list_tokens: bool) -> dict[str, Any]:
    blocks = None
    if token_map is not None:
        from spanparse.tokens import to_json

        blocks = to_json(token_map)
        if list_tokens:
            pieces = [piece.decode("utf-8", "backslashreplace") for piece in token_map.pieces]
            blocks["tokens"] |= {"ids": token_map.ids, "offsets": token_map.offsets, "pieces": pieces}
    document = inspection(prompt.template, prompt.rendering, blocks)
    return document if prompt.sample is None else {**document, "sample": prompt.sample}


def _show(
    screen: Console, prompt: Prompt, token_map: TokenMap | None, why_none: str | None, *, list_tokens: bool, why: bool
) -> None:
    rendering = prompt.rendering
    exact = "exact" if rendering.exact else f"inexact: {rendering.reason}"
    count = f"tokens unknown: {why_none}" if token_map is None else _count(token_map)
    facts = [prompt.template.source, f"family {rendering.family}", f"{len(rendering.text)} characters", count, exact]
    print_line(screen, " · ".join(facts), "bold")
    if prompt.sample is not None:
        print_line(screen, prompt.sample, "italic")
    screen.print()
    screen.print(prompt_view(rendering, screen.width if screen.is_terminal else None), soft_wrap=True)
    show_table(screen, span_table(rendering, token_map))
    if why:
        show_table(screen, rule_table(rendering, _decisions(prompt)))
    if list_tokens and token_map is not None:
        show_table(screen, token_table(rendering, token_map))


def _decisions(prompt: Prompt) -> list[Decision]:
    return explain(prompt.template, prompt.request, limits=prompt.limits)


def _count(token_map: TokenMap) -> str:
    if not token_map.media_known:
        return "tokens unknown: they depend on media"
    about = "" if all(run.exact for run in token_map.media) else "about "
    return f"{about}{token_map.count} tokens"
