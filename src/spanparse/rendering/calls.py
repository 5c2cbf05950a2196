"""Calls from templates, with their results bounded before they run: of methods, blocks and the environment's functions.

The sandbox keeps a template from what it must not reach; this keeps it from using up what it may.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from jinja2 import TemplateError, pass_context
from jinja2.sandbox import SandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from jinja2.utils import generate_lorem_ipsum
from markupsafe import Markup

from spanparse.bounds.costs import BYTES_METHODS, CONTAINER_METHODS, STRING_METHODS, Cost, joined, odd, printed
from spanparse.bounds.limits import SMALL
from spanparse.bounds.operations import REPR_GROWTH, Operations
from spanparse.marks.loss import fields_in
from spanparse.marks.marked import Marked, concat
from spanparse.rendering.context import RenderContext

# Bytes and nanoseconds.
_BRACE_BYTES: Final = 64
_BRACE: Final = 1_500
_WORD: Final = 3_000
_DIGITS: Final = re.compile(r"\d+")


@pass_context
def raise_exception(context: RenderContext, message: Any) -> None:
    """transformers' function: the template refuses the conversation."""
    raise TemplateError(context.operations.text(message))


@pass_context
def strftime_now(context: RenderContext, layout: str) -> str:
    """transformers' function: the render's own clock, written as `layout` says."""
    # The C library's widest directives take this much for one character.
    context.operations.meter.expect(256 * len(layout))
    return context.clock.strftime(layout)


@pass_context
def lipsum(context: RenderContext, n: int = 5, html: bool = True, min: int = 20, max: int = 100) -> str:
    """Jinja's function: filler text."""
    odd(context.operations, n, min, max)
    context.operations.meter.afford(abs(n) * (abs(max) + 1), _WORD)
    return generate_lorem_ipsum(n, html, min, max)


def bounded_method(operations: Operations, method: Any, operands: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """`method(*operands, **options)` for a method of a built-in type, which the sandbox has let the template have."""
    owner = method.__self__
    cost: Cost = odd
    if isinstance(owner, str):
        cost = STRING_METHODS.get(method.__name__, odd)
        if cost is joined and operands:
            operands = (operations.sized(operands[0]), *operands[1:])
    elif isinstance(owner, (list, tuple, dict)):
        cost = CONTAINER_METHODS.get(method.__name__, odd)
    elif isinstance(owner, bytes):
        cost = BYTES_METHODS.get(method.__name__, odd)
    cost(operations, owner, *operands, **options)
    result = operations.meter.keep(method(*operands, **options))
    if type(result) in (list, tuple) and isinstance(owner, str) and len(owner) > SMALL:
        for piece in result:
            operations.meter.keep(piece)
    return result


def bounded_block(operations: Operations, block: Any) -> str:
    """The text of `self.block()` or `super()`, as Jinja's own `BlockReference` gives it."""
    next(operations.steps)
    context = block._context
    text = operations.joined(block._stack[block._depth](context))
    return Markup(text) if context.eval_ctx.autoescape else text


def bound_pairs(operations: Operations, operands: tuple[Any, ...]) -> None:
    """What becomes a dict: few pairs, unless it is one already, since a template can choose keys that collide."""
    for operand in operands:
        if not isinstance(operand, dict):
            odd(operations, operations.sized(operand))


def bounded_format(environment: SandboxedEnvironment, method: Any) -> Callable[..., Any]:
    """A `str.format` or `str.format_map` that a template may call; `method` is the bound original.

    That of a marked text keeps the marks of all fields, or gives an ordinary string.
    """
    layout: str = method.__self__
    mapped = method.__name__ == "format_map"

    @pass_context
    def bounded(context: RenderContext, *operands: Any, **options: Any) -> str:
        if mapped:
            if options or len(operands) != 1:
                raise TypeError("format_map() takes exactly one argument")
            options, operands = operands[0], ()
        # Python's formatter stops at every brace, also at those that stand for themselves.
        braces = str.count(layout, "{") + str.count(layout, "}")
        context.operations.meter.expect_items(braces, _BRACE_BYTES)
        context.operations.meter.afford(braces, _BRACE)
        if isinstance(layout, Markup):
            formatter: _Formatter = _EscapeFormatter(context.operations, environment, escape=layout.escape)
        else:
            formatter = _Formatter(context.operations, environment)
        text = formatter.vformat(layout, operands, options)
        return formatter.marked(layout, text) if type(layout) is Marked else type(layout)(text)

    bounded.__name__ = method.__name__
    bounded.__self__ = layout  # type: ignore[attr-defined] # as the method has it
    return bounded


class _Formatter(SandboxedFormatter):
    """Formats field by field, and looks at the size of each beforehand."""

    def __init__(self, operations: Operations, environment: SandboxedEnvironment, **options: Any) -> None:
        super().__init__(environment, **options)
        self._operations = operations
        self._size = 0
        self._shown: list[str] = []
        self._is_lost = False

    def marked(self, layout: Marked, text: str) -> str:
        """`text`, which was just made of `layout`, with marks; without them if one of its fields lost them."""
        if layout._origin is None:
            return text
        parts: list[str] = []
        shown = iter(self._shown)
        for literal, field, _, _ in self.parse(layout):
            parts.append(Marked.whole(literal, layout._origin))
            if field is not None:
                parts.append(next(shown, ""))
        marked = concat(parts)
        return text if self._is_lost or next(shown, None) is not None or marked != text else marked

    def format_field(self, value: Any, format_spec: str) -> Any:
        next(self._operations.steps)
        self._operations.meter.expect(self._size + sum(int(width[:20]) for width in _DIGITS.findall(format_spec)))
        printed(self._operations, value)
        result = super().format_field(value, format_spec)
        if not format_spec and isinstance(value, (str, int, float)):
            self._shown.append(str(value))
        else:
            self._shown.append(result)
            self._is_lost = self._is_lost or bool(fields_in(value))
        self._size += len(result)
        self._operations.meter.expect(self._size)
        return result

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion is not None:
            self._is_lost = self._is_lost or (conversion != "s" and bool(fields_in(value)))
            self._operations.meter.expect(self._operations.weigh(value).characters, REPR_GROWTH)
        return super().convert_field(value, conversion)


class _EscapeFormatter(_Formatter, SandboxedEscapeFormatter):
    """The same for text that counts as HTML."""
