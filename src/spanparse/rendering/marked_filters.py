"""Jinja's filters in a marked render: those that keep marks, and a record of what the others lose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2 import pass_context
from jinja2.filters import do_default, do_indent, do_title, make_attrgetter

from spanparse.bounds.limits import BIG
from spanparse.marks import marked_json, marked_safe
from spanparse.marks.letters import Letters
from spanparse.marks.loss import fields_in, is_unmarked
from spanparse.marks.marked import Marked, concat
from spanparse.marks.origin import CLOCK, NOWHERE
from spanparse.rendering import calls
from spanparse.rendering.context import RenderContext

Function = Callable[..., Any]

_CHOOSING: Final = frozenset({"first", "last", "max", "min", "random", "reject", "rejectattr", "select", "selectattr"})
_ARRANGING: Final = frozenset({"batch", "dictsort", "groupby", "items", "list", "reverse", "slice", "sort", "unique"})
_KEEPING: Final = _CHOOSING | _ARRANGING | {"attr", "d", "default", "join", "map", "tojson"}
"""Filters that give the values that they are given, or record themselves what they lose."""

_MEASURING: Final = frozenset({"count", "length", "wordcount"})
_CASED: Final = frozenset({"capitalize", "lower", "title", "upper"})
_ESCAPED: Final = frozenset({"e", "escape", "forceescape", "safe"})
_FOLLOWED: Final = _CASED | _ESCAPED | {"center", "format", "indent", "replace", "string", "trim", "truncate"}
"""Filters that follow each character of a marked text, or give an ordinary string."""
_FOLLOWING: Final[frozenset[type]] = frozenset({Marked, marked_safe.SafeMarked, list, tuple})


def recording_filter(name: str, function: Function) -> Function:
    """The bounded filter `function`, which tells the render's cursor what it loses."""
    if name in _KEEPING or name in _MEASURING:
        return function
    is_followed = name in _FOLLOWED

    @pass_context
    def recording(context: RenderContext, value: Any, *operands: Any, **options: Any) -> Any:
        result = function(context, value, *operands, **options)
        if loses(value, result) if is_followed else is_unmarked(result):
            context.cursor.lose(name, value, operands, options)
        return result

    return recording


def loses(value: Any, result: Any) -> bool:
    """Whether an operation that follows each character of a marked `value`, or none of them, gave up."""
    if type(value) is Marked and type(result) in _FOLLOWING:
        return False
    return is_unmarked(result)


@pass_context
def _join(context: RenderContext, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
    separator = str(d)
    if attribute is not None:
        value = map(make_attrgetter(context.environment, attribute), value)
    elif type(value) is Letters and value._text is not None and not separator:
        return value._text
    parts: list[str] = []
    for item in value:
        if parts and separator:
            parts.append(separator)
        parts.append(item if type(item) is Marked else context.cursor.text(item))
    return concat(parts)


def _list(value: Iterable[Any]) -> list[Any]:
    # A longer list is counted while it is made.
    return Letters(value) if type(value) is Marked and len(value) <= BIG else list(value)


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    # An empty text is as good as another, but knows where it comes from.
    if type(value) is Marked and not value and type(default_value) is str and not default_value:
        return value
    return do_default(value, default_value, boolean)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    if type(text) is not Marked:
        return do_indent(text, width, first, blank)
    margin = width if isinstance(width, str) else Marked.whole(" " * width, NOWHERE)
    parts: list[str] = [margin] if first else []
    lines = str.splitlines(text + "\n", True)
    at = 0
    for number, line in enumerate(lines):
        size = len(line.rstrip("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))
        if number and (size or blank):
            parts.append(margin)
        parts.append(text[at : at + size])
        if number + 1 < len(lines):
            end = text[at + size]
            parts.append(end if line[size:] == "\n" else end._recased("\n"))
        at += len(line)
    return concat(parts)


def _title(value: Any) -> str:
    text = do_title(value)
    return value._recased(text) if type(value) is Marked else text


@pass_context
def _tojson(
    context: RenderContext,
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    style = (ensure_ascii, indent, separators, sort_keys)
    if (indent or separators) and fields_in(indent, separators):
        text = marked_json.dump_plain(value, *style)
    else:
        text = marked_json.dumps(value, *style, detailed=context.cursor.detailed)
    if type(text) is not Marked:
        context.cursor.lose("tojson", value, indent, separators)
    return text


@pass_context
def strftime_now(context: RenderContext, layout: str) -> str:
    """transformers' function: the render's own clock, written as `layout` says."""
    text = calls.strftime_now(context, layout)
    return text if fields_in(layout) or is_unmarked(layout) else Marked.whole(text, CLOCK)


FILTERS: Final[Mapping[str, Function]] = {
    "tojson": _tojson,
    "join": _join,
    "list": _list,
    "indent": _indent,
    "default": _default,
    "d": _default,
    "title": _title,
    "safe": marked_safe.mark_safe,
    "escape": marked_safe.escape,
    "e": marked_safe.escape,
    "forceescape": marked_safe.force_escape,
}
