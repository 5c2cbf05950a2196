"""From what the command line names to a template, a conversation and their rendering."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from spanparse.analysis import analyse
from spanparse.cli.output import warning_line
from spanparse.conversation import Conversation, load_conversation, load_tools, parse_settings
from spanparse.errors import ConversationError, SpanparseError, TemplateLimit, TemplateRefused
from spanparse.files import read_bounded, read_file
from spanparse.isolation import is_available, prepare
from spanparse.parse import parse_request, request_of
from spanparse.raw import find_spans
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import DEFAULT_LIMITS, Request, render_plain
from spanparse.sample import fit
from spanparse.sources import TemplateSource, bundled_names, load_source
from spanparse.spans import REASONING_FIELDS, Note, Rendering
from spanparse.stability import with_stability

# A thousand times a long conversation; a device without end must not fill the memory.
_MAX_INPUT_BYTES: Final = 1 << 28
EMBEDDED_TEMPLATE: Final = "chatml"
"""The bundled template that tiny models carry."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered conversation. `sample` says what was cut from the built-in sample, None if the caller's was used.

    `limits` are those of the whole command, with the time running.
    """

    template: TemplateSource
    request: Request
    rendering: Rendering
    sample: str | None
    limits: Limits


@contextlib.contextmanager
def _naming_missing_tokens() -> Iterator[None]:
    """Tells what to do where a bare template wants a special token that only its tokenizer's files name."""
    try:
        yield
    except TemplateRefused as refused:
        hint = _hint(str(refused))
        if not hint:
            raise
        raise SpanparseError(f"{refused}{hint}") from refused


@_naming_missing_tokens()
def load_prompt(
    source: str,
    variant: str | None = None,
    messages: str | None = None,
    tools: str | None = None,
    settings: Sequence[str] | None = None,
    *,
    add_generation_prompt: bool = True,
    stability: bool = True,
) -> Prompt:
    """Reads the files, renders, and warns on standard error of what the template dropped.

    `stability` asks which barriers are stable, for the price of a few renders.
    """
    kwargs = parse_settings(settings or ())
    check_standard_input(("SOURCE", source), ("--messages", messages), ("--tools", tools))
    own_tools = None if tools is None else load_tools(read_input(tools), name=tools)
    conversation = None if messages is None else load_conversation(read_input(messages), own_tools, name=messages)
    has_tools = tools is not None if conversation is None else conversation.tools is not None
    template = load_template(source, variant, tools=has_tools)
    limits = limits_for(source).started()
    sample = None
    if conversation is None:
        conversation, sample = _sample(template, own_tools, kwargs, limits)
    kwargs = {**conversation.kwargs, **kwargs}
    request = request_of(
        template,
        conversation.messages,
        tools=conversation.tools,
        kwargs=kwargs,
        add_generation_prompt=add_generation_prompt,
    )
    rendering = parse_request(template, request, limits=limits)
    if stability:
        # Where a continuation runs past the limits, which barriers are stable stays unknown.
        with contextlib.suppress(TemplateLimit):
            rendering = with_stability(rendering, template, request, limits=limits)
    _warn_of_drops(template, rendering)
    return Prompt(template, request, rendering, sample, limits)


def _hint(reason: str) -> str:
    """What to do where `reason` is that a special token is missing, else nothing."""
    missing = re.search(r"'(\w+_token)' is undefined", reason)
    return "" if missing is None else f" (--set {missing[1]}=TEXT gives it)"


def load_template(source: str, variant: str | None = None, *, tools: bool = False) -> TemplateSource:
    """The template of any SOURCE of the command line: those of `load_source`, and the tiny models' names."""
    if not Path(source).exists() and is_tiny(source):
        from runtime.tiny import vocabulary

        found = load_source(EMBEDDED_TEMPLATE, variant)
        special = {"bos_token": vocabulary.PADDING, "eos_token": vocabulary.END_OF_TURN}
        return TemplateSource(source, found.text, found.sha256, None, special, source)
    return load_source(source, variant, tools=tools)


def limits_for(source: str) -> Limits:
    """The limits of a command: where the platform can, a template that did not come with spanparse renders in a worker.

    What will give the workers is started, while the command goes on.
    """
    comes_along = not Path(source).exists() and (source in bundled_names() or is_tiny(source))
    if comes_along or not is_available():
        return DEFAULT_LIMITS
    prepare()
    return replace(DEFAULT_LIMITS, isolate=True)


def is_tiny(name: str) -> bool:
    """Whether `name` is a tiny model's."""
    from runtime.tiny import KINDS

    return name in KINDS


def read_input(path: str) -> bytes:
    """The bytes of a file, of standard input for `-`. Raises `ConversationError` naming it."""
    try:
        if path != "-":
            data = read_file(path, _MAX_INPUT_BYTES)
        elif sys.stdin is None:
            raise ConversationError(path, "standard input is closed")
        else:
            data = read_bounded(sys.stdin.buffer, _MAX_INPUT_BYTES)
    except (OSError, ValueError) as error:
        raise ConversationError(path, getattr(error, "strerror", None) or str(error)) from error
    if data is None:
        raise ConversationError(path, f"larger than {_MAX_INPUT_BYTES >> 20} MiB")
    return data


def check_standard_input(*named: tuple[str, str | None]) -> None:
    """Raises `SpanparseError` if more than one of the arguments, each with its name, is `-`: it can be read once."""
    names = [name for name, value in named if value == "-"]
    if len(names) > 1:
        raise SpanparseError(f"{' and '.join(names)} cannot both be -: standard input can be read only once")


def _sample(
    template: TemplateSource, own_tools: list[dict[str, Any]] | None, kwargs: dict[str, Any], limits: Limits
) -> tuple[Conversation, str]:
    """What the template accepts of the built-in sample, with the caller's tools if there are any, and what that is."""

    def render(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> None:
        request = request_of(template, messages, tools=tools if own_tools is None else own_tools, kwargs=kwargs)
        render_plain(template.text, request, name=template.source, limits=limits)

    found = fit(render)
    what = "This is a built-in sample conversation (--messages gives your own)."
    return (
        Conversation(found.messages, found.tools if own_tools is None else own_tools),
        what if found.cut is None else f"{what} {found.cut}{_hint(found.cut)}",
    )


def _warn_of_drops(template: TemplateSource, rendering: Rendering) -> None:
    """One line for all that the template renders as nothing; old reasoning is left out as a matter of course."""
    dropped = []
    for message in rendering.messages:
        if Note("dropped") in message.notes:
            dropped.append(f"messages[{message.index}] ({message.role})")
            continue
        for kind, field in message.notes:
            if kind == "dropped" and field and not field.startswith(REASONING_FIELDS):
                dropped.append(f"messages[{message.index}].{field}")
    if Note("dropped", "tools") in rendering.notes:
        dropped.append("the tools")
    if dropped:
        warning_line(f"{template.source} renders nothing of {', '.join(dropped)}")


def load_raw_prompt(source: str, path: str, *, variant: str | None = None, settings: Sequence[str] = ()) -> Prompt:
    """The text of a file as a prompt of SOURCE's template. Its conversation is unknown, so the request is empty."""
    kwargs = parse_settings(settings)
    check_standard_input(("SOURCE", source), ("--raw", path))
    try:
        text = read_input(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConversationError(path, f"not UTF-8 (byte {error.start})") from error
    template = load_template(source, variant)
    limits = limits_for(source).started()
    rendering = find_spans(text, analyse(template, kwargs=kwargs, limits=limits))
    for note in rendering.notes:
        warning_line(f"{path}: {note}")
    return Prompt(template, request_of(template, [], kwargs=kwargs), rendering, None, limits)
