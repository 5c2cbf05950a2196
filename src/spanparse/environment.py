"""The Jinja environment of transformers' `apply_chat_template`, and the same one with marks.

Source of the settings: transformers' `utils/chat_template_utils.py` (`_compile_jinja_template`): an immutable sandbox
with `trim_blocks`, `lstrip_blocks`, loop controls, a `tojson` without HTML escapes, `raise_exception`, `strftime_now`
and the `{% generation %}` block. `tests/` compares the two on every bundled template.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from spanparse import marked_json, marked_safe
from spanparse.codegen import LimitedCodeGenerator, MarkingCodeGenerator
from spanparse.cursor import Cursor
from spanparse.errors import TemplateError, TemplateLimit
from spanparse.marked import Marked, concat, runs_of
from spanparse.origin import GENERATION, NOWHERE
from spanparse.switch import only_adds
from spanparse.tracked import TrackedDict

MAX_TEMPLATE_CHARACTERS = 2_000_000
"""Longest template that is compiled; the longest of 786 published ones has about 30,000 characters."""


_DICTS = frozenset({dict, TrackedDict})
_DICT_ATTRIBUTES = frozenset(dir(TrackedDict))
_LOOP_ATTRIBUTES = frozenset(
    {"depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0"}
)


class RenderContext(Context):
    """A Jinja context that carries the cursor of its render and the clock that the template sees."""

    cursor: Cursor
    clock: datetime.datetime


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}`: transformers records its offsets; the text is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - the name and type are Jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(lineno)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class ChatNamespace(Namespace):
    """`namespace()`, which in transformers takes no attribute whose name begins with an underscore."""

    # Jinja's own way to let a template call `namespace(self=…)`.
    def __init__(*arguments: Any, **attributes: Any) -> None:
        self, *rest = arguments
        values = dict(*rest, **attributes)
        for name in values:
            _check_attribute(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


def _check_attribute(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}: names that begin with an underscore are not allowed")


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


@jinja2.pass_context
def _strftime_now(context: RenderContext, layout: str) -> str:
    return context.clock.strftime(layout)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@jinja2.pass_environment
def _marked_join(
    environment: jinja2.Environment, value: Iterable[Any], d: str = "", attribute: str | int | None = None
) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    parts: list[str] = []
    separator = str(d)
    for item in value:
        if parts and separator:
            parts.append(separator)
        parts.append(str(item))
    return concat(parts)


def _marked_indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * width
    ended = Marked(text, runs_of(text)) + "\n"
    lines: list[str] = ended.splitlines()
    separator = "\n"
    if not blank:
        head, *rest = lines
        lines = [head, *(margin + line if line else line for line in rest)]
        result = Marked(separator).join(lines)
    else:
        result = Marked(separator + margin).join(lines)
    return margin + result if first else result


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """transformers' environment with step counting, and a short cut for what templates look up most."""

    code_generator_class = LimitedCodeGenerator
    context_class = RenderContext

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols], cache_size=0)
        self.filters["tojson"] = _tojson
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["namespace"] = ChatNamespace

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute` under the sandbox's rules, which need not be asked where their answer is known.

        A key of a message or tool that is no method of dict is looked up as an item by those rules too. All public
        attributes of a loop are safe.
        """
        kind = type(obj)
        if kind in _DICTS and attribute not in _DICT_ATTRIBUTES and attribute in obj:
            return obj[attribute]
        if kind is LoopContext and attribute in _LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


@jinja2.pass_context
def _marked_strftime_now(context: RenderContext, layout: str) -> str:
    return Marked.whole(_strftime_now(context, layout), NOWHERE)


@jinja2.pass_context
def _marked_tojson(
    context: RenderContext,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return marked_json.dumps(value, ensure_ascii, indent, separators, sort_keys, detailed=context.cursor.detailed)


class MarkingEnvironment(ChatEnvironment):
    """The same environment for a marked render: every way of joining texts is one that keeps marks."""

    code_generator_class = MarkingCodeGenerator
    generation_origin = GENERATION
    concat = staticmethod(concat)

    def __init__(self) -> None:
        super().__init__()
        self.globals["strftime_now"] = _marked_strftime_now
        self.filters["tojson"] = _marked_tojson
        self.filters["join"] = _marked_join
        self.filters["indent"] = _marked_indent
        self.filters["safe"] = marked_safe.mark_safe
        self.filters["escape"] = self.filters["e"] = marked_safe.escape
        self.filters["forceescape"] = marked_safe.force_escape


_PLAIN = ChatEnvironment()
_MARKING = MarkingEnvironment()


@lru_cache(maxsize=256)
def _compile(text: str, marking: bool) -> jinja2.Template:
    return (_MARKING if marking else _PLAIN).from_string(text)


def compile_template(text: str, name: str, *, marking: bool) -> jinja2.Template:
    """The compiled template, from a cache keyed by its text.

    Raises `TemplateError` if it is no valid template and `TemplateLimit` if it is too long; `name` goes into the error.
    """
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise TemplateLimit(name, f"template has {len(text):,} characters, more than {MAX_TEMPLATE_CHARACTERS:,}")
    try:
        return _compile(text, marking)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(name, f"line {error.lineno}: {error.message}") from error
    except SyntaxError as error:
        # Python refuses what Jinja made of it: "too many" levels of nesting, or a break outside of a loop.
        kind = TemplateLimit if error.msg.startswith("too many") else TemplateError
        raise kind(name, f"cannot be compiled: {error.msg}") from error
    except (RecursionError, MemoryError, OverflowError) as error:
        raise TemplateLimit(name, f"too deeply nested to compile ({type(error).__name__})") from error


@lru_cache(maxsize=256)
def switch_only_adds(text: str) -> bool:
    """Whether marks alone tell what `add_generation_prompt` adds to this template, which has been compiled before."""
    return only_adds(_PLAIN.parse(text))


def variables_read(text: str, name: str) -> frozenset[str]:
    """Names of the variables that the template reads from its context."""
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise TemplateLimit(name, f"template has {len(text):,} characters, more than {MAX_TEMPLATE_CHARACTERS:,}")
    from jinja2.meta import find_undeclared_variables

    return frozenset(find_undeclared_variables(_PLAIN.parse(text)))
