"""Rendering a chat template: plainly, or with marks."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

import jinja2
from jinja2.runtime import new_context

from spanparse.bounds.limits import LimitReached, Limits, Meter
from spanparse.bounds.operations import Operations
from spanparse.errors import TemplateLimit, TemplateRefused
from spanparse.marks.marked import Marked, concat
from spanparse.marks.origin import NOWHERE
from spanparse.marks.place import request_place
from spanparse.marks.tracked import TrackedList, track, track_list, track_message
from spanparse.rendering.context import RenderContext
from spanparse.rendering.cursor import Cursor, Findings
from spanparse.rendering.environment import compile_template, load
from spanparse.rendering.outputs import assembled

Message = dict[str, Any]
Tool = dict[str, Any]
_Text = TypeVar("_Text", bound=str)

_MESSAGE_TEXTS: Final = ("role", "content", "reasoning_content", "tool_call_id")
# Under which other names a template sees reasoning that came under this one.
_REASONING_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "reasoning_content": {"thinking": "reasoning_content"},
    "thinking": {"reasoning_content": "thinking"},
    "reasoning": {"reasoning_content": "reasoning", "thinking": "reasoning"},
}

DEFAULT_LIMITS: Final[Limits] = Limits()
DEFAULT_CLOCK = datetime.datetime(2026, 1, 1, 12, 0, 0)

# What a template can raise: its own raise_exception, undefined values, and Python's complaints.
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,
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
    if limits.isolate:
        from spanparse.isolation import isolated

        return str(isolated(render_plain, text, request, name=name, limits=limits))

    def joined(out: list[str], meter: Meter) -> str:
        meter.expect(sum(map(len, out)))
        return "".join(out)

    return _run(text, request, name, limits, joined)


def render_marked(
    text: str,
    request: Request,
    *,
    name: str = "template",
    limits: Limits = DEFAULT_LIMITS,
    findings: Findings | None = None,
    special_tokens: Mapping[str, str] = MappingProxyType({}),
    detailed: bool = False,
) -> Marked:
    """The same prompt with runs that tile it; `detailed` ones name each value inside serialised tools and arguments.

    Characters of unknown origin (numbers, results of operations that drop marks) are given to what the template was
    rendering when it wrote them, and so are template variables, documents and dates. `findings` is told of them and of
    the rest. `special_tokens` are the model's own: a variable that still has the value of one counts as the template's
    text. Raises what `render_plain` raises.
    """
    found = Findings() if findings is None else findings
    if limits.isolate:
        from spanparse.isolation import isolated

        marked, others = isolated(
            _marked_and_findings,
            text,
            request,
            name=name,
            limits=limits,
            special_tokens=dict(special_tokens),
            detailed=detailed,
        )
        for finding in Findings.__slots__:
            setattr(found, finding, getattr(others, finding))
        assert isinstance(marked, Marked)
        return marked

    def joined(out: list[Any], meter: Meter) -> Marked:
        return assembled(out, found, meter.expect)

    def variables() -> dict[str, Any]:
        return _marked_variables(request, text, special_tokens)

    return _run(text, request, name, limits, joined, findings=found, variables=variables, detailed=detailed)


def _marked_and_findings(text: str, request: Request, **options: Any) -> tuple[Marked, Findings]:
    findings = Findings()
    return render_marked(text, request, findings=findings, **options), findings


def _run(
    text: str,
    request: Request,
    name: str,
    limits: Limits,
    joined: Callable[[list[Any], Meter], _Text],
    *,
    findings: Findings | None = None,
    variables: Callable[[], dict[str, Any]] | None = None,
    detailed: bool = False,
) -> _Text:
    """Render with marks if there are `findings` to be made, which `joined` goes on with, and marked `variables`."""
    marking = findings is not None
    limits = limits.started()
    code = compile_template(text, name, marking=marking, limits=limits)
    out: list[Any] = [NOWHERE] if marking else []
    meter = Meter(limits, out, _MARKED_CHUNK_BYTES if marking else _CHUNK_BYTES, len(text))
    operations = Operations(meter, concat if marking else "".join)
    cursor = Cursor(operations, findings or Findings(), out, detailed=detailed)
    template = load(code, operations, marking=marking)
    given = variables() if variables else _variables(request)
    try:
        environment = template["environment"]
        context = new_context(environment, None, template["blocks"], given, globals=environment.globals)
        assert isinstance(context, RenderContext)
        context.cursor = cursor
        context.operations = operations
        context.clock = request.clock
        context.out = out
        out.extend(template["root"](context))
        return joined(out, meter)
    except LimitReached as limit:
        raise TemplateLimit(name, str(limit)) from limit
    except (RecursionError, MemoryError, OverflowError) as error:
        raise TemplateLimit(name, f"{type(error).__name__} while rendering: {error}") from error
    except _TEMPLATE_ERRORS as error:
        reason = " ".join(str(error)[:_MOST_REASON].split()) or type(error).__name__
        where = cursor.current.message if marking else None
        raise TemplateRefused(name, reason, where) from error
    finally:
        # A template's macros refer to each other and to all they know: it would wait for the garbage collector.
        given["messages"].clear()
        template.clear()
        out.clear()


def _variables(request: Request) -> dict[str, Any]:
    return {
        **request.kwargs,
        "messages": [*map(_presented, request.messages)],
        "tools": request.tools,
        "documents": request.kwargs.get("documents"),
        "add_generation_prompt": request.add_generation_prompt,
    }


def _marked_variables(request: Request, template: str, special_tokens: Mapping[str, str]) -> dict[str, Any]:
    place = request_place()
    kwargs = {
        name: Marked.whole(value, NOWHERE)
        if isinstance(value, str) and value == special_tokens.get(name)
        else track(value, place[name])
        for name, value in request.kwargs.items()
    }
    return {
        "documents": None,
        **kwargs,
        "messages": _tracked(request.messages, template),
        "tools": track(request.tools, place["tools"], printable=True),
        "add_generation_prompt": request.add_generation_prompt,
    }


def _presented(message: Message) -> Message:
    """The message as transformers shows it to a template.

    Source: `_normalize_chat_messages` and `_alias_reasoning_fields` in its `utils/chat_template_utils.py`.
    """
    fields = message
    if None in message.values():
        fields = {name: value for name, value in message.items() if value is not None}
    if "reasoning_content" in fields:
        reasoning = fields["reasoning_content"]
    elif "thinking" in fields:
        reasoning = fields["thinking"]
    elif "reasoning" in fields:
        reasoning = fields["reasoning"]
    else:
        return fields
    return {"thinking": reasoning, **fields, "reasoning_content": reasoning}


def _tracked(messages: list[Message], template: str) -> TrackedList:
    """The messages as a template sees them, tracked: the texts of fields that it names at once."""
    place = request_place()["messages"]
    texts = [name for name in _MESSAGE_TEXTS if name in template]
    tracked = []
    for index, message in enumerate(messages):
        fields = _presented(message)
        shown = track_message(fields, place[index], texts, None if fields is message else _renamed(message))
        tracked.append(shown)
    return track_list(tracked, messages, place)


def _renamed(message: Message) -> Mapping[str, str] | None:
    """Where a template looks for reasoning, and where the caller has put it: spans name that field."""
    for name, others in _REASONING_NAMES.items():
        if message.get(name) is not None:
            return others if all(message.get(other) is None for other in others) else None
    return None
