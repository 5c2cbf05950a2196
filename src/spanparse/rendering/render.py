"""Rendering a chat template: plainly, or with marks."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jinja2

from spanparse.bounds.limits import LimitReached, Limits, Meter
from spanparse.bounds.operations import Operations
from spanparse.errors import TemplateLimit, TemplateRefused
from spanparse.marks.marked import Marked, concat, runs_of
from spanparse.marks.origin import NOWHERE, Origin, Run
from spanparse.marks.tracked import TrackedDict, TrackedList, track
from spanparse.rendering.context import RenderContext
from spanparse.rendering.cursor import Cursor
from spanparse.rendering.environment import compile_template

Message = dict[str, Any]
Tool = dict[str, Any]

_REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")

DEFAULT_LIMITS: Final[Limits] = Limits()
DEFAULT_CLOCK = datetime.datetime(2026, 1, 1, 12, 0, 0)

# What a template can raise: its own raise_exception, undefined values, and Python's complaints.
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)
_MOST_REASON = 2_000
# Memory that a chunk takes until the text is joined; of a marked one, until its spans are found.
_CHUNK_BYTES = 64
_MARKED_CHUNK_BYTES = 512


@dataclass(frozen=True, slots=True)
class Request:
    """All that a template is given.

    As in transformers from 5.23 on, a template sees no field of a message that is null, and reasoning under
    `reasoning_content` (and `thinking`, if it has no other value), whichever of these or `reasoning` it came under.

    `kwargs` are template variables such as `enable_thinking` or `bos_token`. `clock` is what `strftime_now` shows; a
    fixed default keeps renderings reproducible, since a date that changes at midnight invalidates every cached prompt.
    """

    messages: list[Message]
    tools: list[Tool] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    clock: datetime.datetime = DEFAULT_CLOCK


def render_plain(text: str, request: Request, *, name: str = "template", limits: Limits = DEFAULT_LIMITS) -> str:
    """The prompt that transformers' `apply_chat_template(tokenize=False)` makes of `request`.

    Raises `TemplateError` (does not compile), `TemplateRefused` (raised while rendering) or `TemplateLimit`.
    """
    chunks = _run(text, request, Cursor(), name, limits, marking=False)
    return "".join([chunk for chunk, _ in chunks])


def render_marked(
    text: str,
    request: Request,
    *,
    name: str = "template",
    limits: Limits = DEFAULT_LIMITS,
    unmarked: list[str] | None = None,
    detailed: bool = False,
) -> Marked:
    """The same prompt with runs that tile it; `detailed` ones name each value inside serialised tools and arguments.

    Characters of unknown origin (numbers, dates, results of operations that drop marks) are given to what the template
    was rendering when it wrote them; such stretches are appended to `unmarked`. Raises what `render_plain` raises.
    """
    cursor = Cursor(detailed=detailed)
    lost: list[str] = [] if unmarked is None else unmarked
    chunks = _run(text, request, cursor, name, limits, marking=True)
    return concat([_owned(chunk, origin, lost) for chunk, origin in chunks])


def _run(
    text: str, request: Request, cursor: Cursor, name: str, limits: Limits, *, marking: bool
) -> list[tuple[str, Origin]]:
    template = compile_template(text, name, marking=marking)
    meter = Meter(limits)
    chunks: list[tuple[str, Origin]] = []
    size = 0
    try:
        context = template.new_context(_variables(request, marking))
        assert isinstance(context, RenderContext)
        context.cursor = cursor
        context.operations = Operations(meter, template.environment.concat)
        context.clock = request.clock
        each = _MARKED_CHUNK_BYTES if marking else _CHUNK_BYTES
        most = limits.memory // each
        for count, chunk in enumerate(template.root_render_func(context)):
            size += len(chunk)
            if size > limits.characters or count > most:
                meter.expect(size)
                meter.expect_items(count, each)
            chunks.append((chunk, cursor.current))
    except LimitReached as limit:
        raise TemplateLimit(name, str(limit)) from limit
    except (RecursionError, MemoryError, OverflowError) as error:
        raise TemplateLimit(name, f"{type(error).__name__} while rendering: {error}") from error
    except _TEMPLATE_ERRORS as error:
        reason = " ".join(str(error)[:_MOST_REASON].split()) or type(error).__name__
        where = cursor.current.message if marking else None
        raise TemplateRefused(name, reason, where) from error
    return chunks


def _variables(request: Request, marking: bool) -> dict[str, Any]:
    return {
        **{name: _template_text(value) if marking else value for name, value in request.kwargs.items()},
        "messages": _presented(track(request.messages, ("messages",)) if marking else request.messages),
        "tools": track(request.tools, ("tools",), printable=True) if marking else request.tools,
        "documents": request.kwargs.get("documents"),
        "add_generation_prompt": request.add_generation_prompt,
    }


def _presented(messages: list[Message]) -> list[Message]:
    """The messages as transformers shows them to a template, tracked if these are.

    Source: `_normalize_chat_messages` and `_alias_reasoning_fields` in its `utils/chat_template_utils.py`.
    """
    presented = [_presented_message(message) for message in messages]
    return TrackedList(presented, messages._origin) if isinstance(messages, TrackedList) else presented


def _presented_message(message: Message) -> Message:
    fields = {name: value for name, value in message.items() if value is not None}
    reasoning = next((fields[name] for name in _REASONING_NAMES if name in fields), None)
    if reasoning is not None:
        fields = {"thinking": reasoning, **fields, "reasoning_content": reasoning}
    # The value under another name keeps its origin: spans name the field that the caller filled.
    return TrackedDict(fields, message._origin) if isinstance(message, TrackedDict) else fields


def _template_text(value: Any) -> Any:
    """A template variable, marked as text that no message owns if it is text."""
    return Marked.whole(value, NOWHERE) if isinstance(value, str) else value


def _owned(chunk: str, current: Origin, lost: list[str]) -> str:
    """`chunk` with its unmarked characters given to `current`, and so the text that was set aside outside all loops."""
    runs = runs_of(chunk)
    if len(runs) == 1 and runs[0].end - runs[0].start == len(chunk) and runs[0].origin is not NOWHERE:
        return chunk
    origin = current.as_literal()
    # Text set aside together with another message's field (a system text with its separator) stays with that field.
    adopts = origin is not NOWHERE and all(r.origin.literal or r.origin.message == origin.message for r in runs)
    covered = 0
    for run in runs:
        if run.start > covered or (adopts and run.origin is NOWHERE):
            break
        covered = run.end
    if covered == len(chunk):
        return chunk
    filled: list[Run] = []
    at = 0
    for run in (*runs, Run(len(chunk), len(chunk), origin, -1)):
        if run.start > at:
            filled.append(Run(at, run.start, origin, -1))
            lost.append(str.__getitem__(chunk, slice(at, run.start)))
        if run.end > run.start:
            filled.append(run._replace(origin=origin) if adopts and run.origin is NOWHERE else run)
        at = run.end
    return Marked(chunk, tuple(filled))
