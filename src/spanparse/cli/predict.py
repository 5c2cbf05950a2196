"""`spanparse predict`: what the next request will keep of a prompt, and what would keep more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spanparse.cli import options
from spanparse.cli.inspect_json import template_json
from spanparse.cli.output import console, print_line, write_json
from spanparse.cli.tables import cell, new_table, show_table
from spanparse.errors import SpanparseError
from spanparse.prediction import predict_rendering, to_json
from spanparse.prediction.changes import summarised

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from spanparse.cli.prompt import Prompt
    from spanparse.prediction import Change, Divergence, Hazard, Outcome, Prediction, Remedy


def predict(
    source: options.Source,
    variant: options.Variant = None,
    messages: options.Messages = None,
    tools: options.Tools = None,
    settings: options.Settings = None,
    tokenizer: options.Tokenizer = None,
    mmproj: options.Mmproj = None,
    trust_content: options.TrustContent = False,
    no_generation_prompt: options.NoGenerationPrompt = False,
    as_json: options.Json = False,
) -> None:
    """Show what the next request will keep of a prompt.

    Renders the ways in which the conversation may go on, and says what each loses, where and why. What would keep more
    is listed only if a render confirms it.
    """
    from spanparse.cli.prompt import load_prompt
    from spanparse.cli.tokenizer import find_backend, tokens_by

    prompt = load_prompt(
        source, variant, messages, tools, settings, add_generation_prompt=not no_generation_prompt, stability=False
    )
    backend, why_none = find_backend(tokenizer, prompt.template)
    tokens = None
    if backend is not None:
        tokens = tokens_by(backend, prompt, tokenizer, trust_content=trust_content, mmproj=mmproj)
    elif mmproj is not None:
        raise SpanparseError(f"--mmproj {mmproj}: {why_none}")
    found = predict_rendering(
        prompt.rendering,
        prompt.template,
        prompt.request,
        limits=prompt.limits,
        backend=backend,
        tokens=tokens,
        trust_content=trust_content,
    )
    if not as_json:
        _show(console(), prompt, found, why_none)
        return
    document = {"schema_version": 1, "template": template_json(prompt.template, prompt.rendering), **to_json(found)}
    write_json(document if prompt.sample is None else {**document, "sample": prompt.sample})


def _show(screen: Console, prompt: Prompt, found: Prediction, why_none: str | None) -> None:
    unknown = f"tokens unknown: {why_none or 'they depend on media'}"
    count = unknown if found.prompt_tokens is None else f"{found.prompt_tokens:,} tokens"
    exact = "exact" if found.exact else f"inexact: {found.reason}"
    size = f"{found.prompt_chars:,} characters"
    facts = [prompt.template.source, f"family {prompt.rendering.family}", size, count, exact]
    print_line(screen, " · ".join(facts), "bold")
    if prompt.sample is not None:
        print_line(screen, prompt.sample, "italic")
    screen.print()
    _show_table(screen, found)
    for names, changes, remedies in _details(found.continuations):
        print_line(screen, ", ".join(names), "bold")
        for line in _changes(changes):
            print_line(screen, f"  {line}")
        for remedy in remedies:
            print_line(screen, f"  → {remedy.text}", "green")
    for hazard in found.hazards:
        _show_hazard(screen, hazard)
    if found.unfinished is not None:
        print_line(screen, f"Not all that would keep more was tried: {found.unfinished}.", "italic")


def _show_table(screen: Console, found: Prediction) -> None:
    unit = "" if found.prompt_tokens is None else " (tokens)"
    table = new_table("next request", f"kept{unit}", f"lost{unit}", "diverges at", right=(f"kept{unit}", f"lost{unit}"))
    table.columns[0].no_wrap = True
    for outcome in found.continuations:
        kept = _count(outcome.kept_chars, outcome.kept_tokens)
        lost = _count(outcome.lost_chars, outcome.lost_tokens)
        where = _where(outcome.diverges) if outcome.reason is None else outcome.reason
        style = "dim" if outcome.reason else None if outcome.lost_chars else "green"
        table.add_row(*map(cell, (outcome.name, kept, lost, where)), style=style)
    show_table(screen, table)


def _count(chars: int | None, tokens: int | None) -> str:
    if chars is None:
        return "–"
    return f"{chars:,}" if tokens is None else f"{chars:,} ({tokens:,})"


def _details(outcomes: Iterable[Outcome]) -> list[tuple[list[str], Sequence[Change], Sequence[Remedy]]]:
    """What the template changes and what would help; continuations with the same of both together."""
    groups: dict[tuple[tuple[Change, ...], tuple[Remedy, ...]], list[str]] = {}
    for outcome in outcomes:
        if outcome.changes or outcome.remedies:
            groups.setdefault((outcome.changes, outcome.remedies), []).append(outcome.name)
    return [(names, changes, remedies) for (changes, remedies), names in groups.items()]


def _show_hazard(screen: Console, hazard: Hazard) -> None:
    print_line(screen, f"{hazard.name}: {hazard.text}", "bold")
    where = _where(hazard.diverges)
    print_line(screen, f"  if it changes, {hazard.lost_chars:,} characters are lost, from {where} on")
    for remedy in hazard.remedies:
        print_line(screen, f"  → {remedy.text}", "green")


def _changes(changes: Sequence[Change]) -> Iterable[str]:
    for first, messages in summarised(changes):
        if len(messages) > 1:
            what = f"{first.field} of {len(messages)} messages, {messages[0]} to {messages[-1]},"
        else:
            what = first.field if first.message is None else f"messages[{first.message}] {first.field}"
        yield f"{what} {first.what}: {first.why}"


def _where(diverges: Divergence | None) -> str:
    if diverges is None:
        return ""
    field = diverges.field if diverges.message is None else f"messages[{diverges.message}] {diverges.field}"
    return field if diverges.offset is None else f"{field}, character {diverges.offset:,}"
