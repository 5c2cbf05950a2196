"""`spanparse plan`: which states to restore, save and evict for one prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from spanparse.cli import options
from spanparse.cli.options import chosen, known_policy
from spanparse.cli.output import console, print_line, printable_lines, write_json
from spanparse.errors import SourceError, SpanparseError
from spanparse.prediction import Forecast

if TYPE_CHECKING:
    from planner import PlanRequest
    from spanparse.cli.prompt import Prompt
    from spanparse.prediction import Likely
    from spanparse.tokens import TokenMap


def plan(
    context: typer.Context,
    source: options.OptionalSource = None,
    variant: options.Variant = None,
    messages: options.Messages = None,
    tools: options.Tools = None,
    settings: options.Settings = None,
    tokenizer: options.Tokenizer = None,
    mmproj: options.Mmproj = None,
    trust_content: options.TrustContent = False,
    no_generation_prompt: options.NoGenerationPrompt = False,
    checkpoints: options.Checkpoints = None,
    checkpoint_bytes: options.CheckpointBytes = None,
    policy: options.Policy = "adaptive",
    state_bytes: Annotated[
        int, typer.Option("--state-bytes", metavar="B", min=0, help="Size of one checkpoint; 0 is unknown.")
    ] = 0,
    existing: Annotated[
        str | None,
        typer.Option(
            "--existing",
            metavar="FILE",
            help='JSON: the stored checkpoints of this prompt, a list of {"offset": n, "bytes": b, "age": a}, or an '
            "object with the fields existing, common_prefix and live of a plan request.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="KIND",
            help="dense, swa, recurrent, hybrid or swa+recurrent. [default: a tiny model's own, else hybrid]",
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="FILE", help="JSON: a whole plan request, instead of all the above."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Plan the checkpoints of one prompt, and say why.

    A plan says what to restore, where to save, what to evict, and what that is expected to be worth.
    """
    import planner
    from spanparse.cli.prompt import load_prompt, read_input

    if (source is None) == (request is None):
        raise SpanparseError("plan needs SOURCE or --request FILE, one of the two")
    sample = None
    if request is not None:
        _refuse_others(context)
        with _named(lambda _: request):
            made = planner.read_request(read_input(request))
    else:
        assert source is not None
        prompt = load_prompt(source, variant, messages, tools, settings, add_generation_prompt=not no_generation_prompt)
        sample = prompt.sample
        token_map, likely = _tokens(prompt, tokenizer, mmproj, trust_content)
        budget = {"checkpoints": checkpoints, "bytes": checkpoint_bytes}
        kind = (
            chosen(memory, get_args(planner.MemoryKind), "--memory", "kind of memory") if memory else _memory_of(source)
        )
        if checkpoint_bytes is not None and not state_bytes and kind != "dense":
            raise SpanparseError("--checkpoint-bytes needs --state-bytes, the size of one checkpoint")
        fields: dict[str, Any] = {
            "likely": [expected._asdict() for expected in likely],
            "memory": kind,
            "policy": known_policy(policy),
            "state_bytes": state_bytes,
            **({} if budget == {"checkpoints": None, "bytes": None} else {"budget": budget}),
        }
        made = _request(token_map, fields, None if existing is None else read_input(existing), existing)
    found = planner.plan(made)
    comparison = planner.compare(made, found)
    if as_json:
        document = {"schema_version": 1, **json.loads(planner.write_plan(found, comparison))}
        write_json(document if sample is None else {**document, "sample": sample})
    else:
        _show(found.explain(comparison), sample)


def _refuse_others(context: typer.Context) -> None:
    """A whole request leaves nothing to say with other options but how to show the plan."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name not in ("request", "as_json") and given is not None and given.name == "COMMANDLINE":
            raise SpanparseError(f"--request FILE is a whole request: no {parameter.opts[0]}")


@contextmanager
def _named(input_of: Callable[[str], str | None]) -> Iterator[None]:
    """Errors of a request also say where it came from; `input_of` tells by the name of the request's field."""
    from planner.errors import PlanRequestError

    try:
        yield
    except PlanRequestError as error:
        name = input_of(re.split(r"[.\[]", error.field)[0])
        if name is None:
            raise
        raise SpanparseError(f"{name}: {error}") from error


def _tokens(
    prompt: Prompt, tokenizer: str | None, mmproj: str | None, trust_content: bool
) -> tuple[TokenMap, tuple[Likely, ...]]:
    """The tokens of a prompt, and where the next is expected to part from it by what the template rewrites."""
    from spanparse.cli.tokenizer import find_backend, tokens_by

    backend, why_none = find_backend(tokenizer, prompt.template)
    source = prompt.template.source
    if backend is None:
        raise SourceError(source, f"a plan needs a tokenizer: {why_none}")
    tokens = tokens_by(backend, prompt, tokenizer, trust_content=trust_content, mmproj=mmproj)
    if not tokens.media_known:
        raise SourceError(source, "a plan needs to know how many tokens its media take")
    forecast = Forecast(prompt.template, backend, trust_content=trust_content)
    return tokens, forecast.likely(prompt.rendering, prompt.request, tokens, limits=prompt.limits)


def _memory_of(source: str) -> str:
    """A tiny model is named after its memory. Any other has to be loaded to know, which planning does not do."""
    from spanparse.cli.prompt import is_tiny

    return source if is_tiny(source) else "hybrid"


def _request(token_map: TokenMap, fields: dict[str, Any], existing: bytes | None, name: str | None) -> PlanRequest:
    """The request, through the planner's own reader, so that what is wrong in it is named by field."""
    import planner

    candidates = [
        {"offset": place.token, "kind": place.kind, "stable": place.stable is not False, "message": place.message}
        for place in token_map.places
    ]
    stored = {} if existing is None else _stored(existing, name or "", token_map.count)
    media = [{"begin": run.begin, "end": run.begin + run.n_tokens} for run in token_map.media]
    body = {
        "schema_version": 1,
        "prompt_tokens": token_map.count,
        "candidates": candidates,
        "forbidden": media,
        **fields,
        **stored,
    }
    with _named(lambda field: name if field in stored else None):
        return planner.read_request(json.dumps(body))


def _stored(data: bytes, name: str, prompt_tokens: int) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SpanparseError(f"{name}: not valid JSON ({error})") from error
    if isinstance(found, dict):
        unknown = set(found) - {"existing", "common_prefix", "live"}
        if unknown:
            raise SpanparseError(f"{name}: {min(unknown)}: no such field (existing, common_prefix, live)")
        return found
    shared = 0
    for index, entry in enumerate(found if isinstance(found, list) else []):
        offset = entry.get("offset") if isinstance(entry, dict) else None
        if isinstance(offset, int):
            if offset > prompt_tokens:
                where = f"{name}: existing[{index}].offset: {offset}"
                raise SpanparseError(f"{where} is past the end of the prompt, which has {prompt_tokens} tokens")
            shared = max(shared, offset)
    return {"existing": found, "common_prefix": shared}


def _show(words: str, sample: str | None) -> None:
    screen = console()
    if sample is not None:
        print_line(screen, sample, "italic")
    screen.print(printable_lines(words), markup=False, soft_wrap=True)
