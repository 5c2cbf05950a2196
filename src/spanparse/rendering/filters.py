"""Jinja's filters and tests, with their results bounded before they run.

Each gives what Jinja's own gives; ordinary templates notice nothing of the bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import count, repeat
from typing import Any, Final, final

from jinja2 import pass_context
from jinja2.utils import _PassArg

from spanparse.bounds.costs import (
    Cost,
    escaped,
    joined,
    lines,
    looked_up,
    odd,
    pieces,
    printed,
    replaced,
    stripped,
    titled,
)
from spanparse.bounds.limits import BIG, SMALL, LimitReached
from spanparse.bounds.operations import ESCAPE_GROWTH, FLAT, Operations
from spanparse.marks.letters import Letters
from spanparse.marks.marked import Marked
from spanparse.rendering.context import RenderContext

Function = Callable[..., Any]

_MOST_LAZY: Final = 100
_MOST_DIGITS: Final = 300
# Nanoseconds that an item takes which is sorted.
_COMPARED_ITEM: Final = 2_000
# Nanoseconds and bytes that an item takes which is written as JSON with marks.
_JSON_ITEM: Final = 7_000
_JSON_ITEM_BYTES: Final = 900


@final
class Lazy:
    """What a filter such as `map` gives: its items one by one, each of which counts as a step."""

    __slots__ = ("_operations", "_source", "depth")

    def __init__(self, source: Iterator[Any], operations: Operations, depth: int) -> None:
        # Python overflows its stack on generators that are nested without end.
        if depth > _MOST_LAZY:
            raise LimitReached(f"puts more than {_MOST_LAZY} filters on top of each other")
        self._source = source
        self._operations = operations
        self.depth = depth

    def __iter__(self) -> Lazy:
        return self

    def __next__(self) -> Any:
        next(self._operations.steps)
        return next(self._source)


# What Python calls it when it complains.
Lazy.__name__ = "generator"


# --- costs of filters -----------------------------------------------------------------------------


def _serialised(
    operations: Operations,
    value: Any,
    ensure_ascii: object = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: object = False,
) -> None:
    if type(value) in _TEXTS and len(value) <= BIG:
        return
    if isinstance(value, int) and value.bit_length() <= SMALL:
        return
    characters, height, items = operations.weigh(value)
    if characters <= BIG and not indent and not separators:
        return  # what comes out is small
    operations.meter.expect_items(items, _JSON_ITEM_BYTES)
    operations.meter.afford(items, _JSON_ITEM)
    margin = len(indent) if isinstance(indent, str) else max(0, operator.index(indent or 0))
    between = sum(map(len, separators)) if separators else 0
    # A value's weight counts at least four characters for each item, which is where lines and separators go.
    operations.meter.expect(characters + characters // 4 * (height * margin + between))
    operations.meter.expect(characters, 2 * ESCAPE_GROWTH)


def _walked(operations: Operations, value: Any, *operands: object, **options: object) -> None:
    if isinstance(value, str):
        pieces(operations, value, len(value))
    else:
        # Sorting compares each with others as often as the number of all has bits.
        operations.meter.afford(operations.weigh(value).characters, len(value).bit_length())
    operations.meter.afford(len(value), _COMPARED_ITEM)


def _sorted(
    operations: Operations,
    value: Any,
    reverse: object = False,
    case_sensitive: object = False,
    attribute: object = None,
) -> None:
    looked_up(operations, value, attribute)
    _walked(operations, value)


def _greatest(operations: Operations, value: Any, case_sensitive: object = False, attribute: object = None) -> None:
    _sorted(operations, value, attribute=attribute)


def _grouped(operations: Operations, value: Any, attribute: object, *operands: object, **options: object) -> None:
    _sorted(operations, value, attribute=attribute)


def _mapped(operations: Operations, value: Any, *names: object, attribute: object = None, **options: object) -> None:
    looked_up(operations, value, attribute)


def _unique(operations: Operations, value: Any, case_sensitive: object = False, attribute: object = None) -> None:
    looked_up(operations, value, attribute)


def _listed(operations: Operations, value: Any, *operands: object) -> None:
    if isinstance(value, str):
        pieces(operations, value, len(value))


def _filter_join(operations: Operations, value: Any, d: Any = "", attribute: object = None) -> None:
    looked_up(operations, value, attribute)
    separator = operations.text(d)
    if type(value) is Letters and value._text is not None:
        operations.pieces(value._text, len(value) if separator else 1)
        operations.meter.expect(len(value) * (1 + len(separator)))
        return
    if type(value) is not list or set(map(type, value)) != {str}:
        _walked(operations, value)
    joined(operations, separator, value)


def _filter_replace(operations: Operations, s: Any, old: Any, new: Any, count: Any = None) -> None:
    printed(operations, s)
    limit = -1 if count is None else count
    replaced(operations, operations.text(s), operations.text(old), operations.text(new), limit)


def _indented(operations: Operations, s: Any, width: Any = 4, first: object = False, blank: object = False) -> None:
    if not isinstance(s, str):
        # An error for all there is. Jinja's filter uses `+=`, which would first add to the caller's own list.
        operator.add(s, "\n")
    margin = len(width) if isinstance(width, str) else max(0, operator.index(width))
    ends = lines(s) if len(s) * max(1, margin) > BIG else len(s) + 1
    if ends > BIG:
        pieces(operations, s, ends)
    operations.meter.expect(len(s) + ends * margin)


def _formatted(operations: Operations, value: Any, *values: Any, **named: Any) -> None:
    printed(operations, value)
    operations.formatting(operations.text(value), named or values)


def _centered(operations: Operations, value: Any, width: Any = 80) -> None:
    printed(operations, value)
    operations.meter.expect(operator.index(width))


def _summed(operations: Operations, iterable: Any, attribute: object = None, start: object = 0) -> None:
    looked_up(operations, iterable, attribute)
    characters, height, _ = operations.weigh(iterable)
    characters += operations.weigh(start).characters
    if height > 1:  # lists are copied for each item
        operations.meter.expect((characters + 1) * len(iterable))


def _rounded(operations: Operations, value: Any, precision: Any = 0, method: object = "common") -> None:
    digits = operator.index(precision)
    if abs(digits) > _MOST_DIGITS:
        raise LimitReached(f"rounds a number to more than {_MOST_DIGITS} digits")
    if not isinstance(value, (int, float)):
        odd(operations, value, 10 ** max(0, digits))
    operations.operate("*", 1, value)


def _batched(operations: Operations, value: object, linecount: Any, fill_with: object = None) -> None:
    if fill_with is not None:
        operations.meter.expect_items(operator.index(linecount))


def _trimmed(operations: Operations, value: Any, chars: Any = None) -> None:
    printed(operations, value)
    stripped(operations, operations.text(value), chars)


def _titled(operations: Operations, value: Any) -> None:
    printed(operations, value)
    titled(operations, operations.text(value))


def _free(operations: Operations, *operands: object, **options: object) -> None:
    """The items come one by one."""


_UNBOUNDED: Final = frozenset({"attr", "count", "d", "default", "first", "items", "last", "length", "random"})
# Filters that need a container: whatever else they are given is made a list.
_SIZED: Final = frozenset({"groupby", "join", "max", "min", "slice", "sort", "sum"})
_LAZY: Final = frozenset({"batch", "map", "reject", "rejectattr", "select", "selectattr", "slice", "unique"})
_TEXTUAL: Final = frozenset({"capitalize", "lower", "safe", "string", "title", "trim", "upper"})
_TEXTS: Final = frozenset({str, Marked})
_FILTERS: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(_LAZY, _free),
    **dict.fromkeys(("abs", "float", "int"), printed),
    **dict.fromkeys(("e", "escape", "forceescape"), escaped),
    **dict.fromkeys(("max", "min"), _greatest),
    "dictsort": _walked,
    "groupby": _grouped,
    "sort": _sorted,
    "map": _mapped,
    **dict.fromkeys(("selectattr", "rejectattr"), looked_up),
    "unique": _unique,
    "batch": _batched,
    "center": _centered,
    "format": _formatted,
    "indent": _indented,
    "join": _filter_join,
    "list": _listed,
    "replace": _filter_replace,
    "reverse": _listed,
    "slice": _listed,
    "title": _titled,
    "trim": _trimmed,
    "round": _rounded,
    "sum": _summed,
    "tojson": _serialised,
}


def bounded_filter(name: str, function: Function) -> Function:
    """The filter `function` of that name, bounded by what it costs: `odd` if nothing is known of it."""
    if name in _UNBOUNDED:
        return function
    if name in _TEXTUAL:
        return _bounded_text(function, _FILTERS.get(name, printed))
    cost: Cost = _FILTERS.get(name, odd)
    if name in _LAZY or name in _SIZED:
        return _bounded_items(name, function, cost)
    passed = _PassArg.from_obj(function)

    @pass_context
    def bounded(context: RenderContext, value: Any, *operands: Any, **options: Any) -> Any:
        operations = context.operations
        if operands or options:
            _weigh_all(operations, operands, options)
        cost(operations, value, *operands, **options)
        if passed is None:
            return operations.meter.keep(function(value, *operands, **options))
        return operations.meter.keep(function(_argument(passed, context), value, *operands, **options))

    return bounded


def _bounded_items(name: str, function: Function, cost: Cost) -> Function:
    """A filter that goes through the items of a container, or gives some one by one."""
    lazy, sized, unique = name in _LAZY, name in _SIZED, name == "unique"
    passed = _PassArg.from_obj(function)

    @pass_context
    def bounded(context: RenderContext, value: Any, *operands: Any, **options: Any) -> Any:
        operations = context.operations
        _weigh_all(operations, operands, options)
        if sized:
            value = operations.sized(value)
        cost(operations, value, *operands, **options)
        depth = value.depth + 1 if type(value) is Lazy else 0
        if lazy and value and type(value) is not Lazy:
            value = operations.one_by_one(value)
        if unique:
            value = map(_hashed, repeat(operations), count(), value)
        if passed is None:
            result = function(value, *operands, **options)
        else:
            result = function(_argument(passed, context), value, *operands, **options)
        if lazy:
            return Lazy(result, operations, depth)
        return operations.meter.keep(result)

    return bounded


def _hashed(operations: Operations, place: int, value: Any) -> Any:
    """`value`, which is about to be looked for among as many others; a template can choose numbers of one hash."""
    if type(value) not in _TEXTS:
        operations.walk(value)
        operations.meter.charge(place << 3)
    return value


def _weigh_all(operations: Operations, operands: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """What a filter is given beside the value must not be too deep."""
    for operand in (*operands, *options.values()):
        if type(operand) not in FLAT:
            operations.weigh(operand)


def _bounded_text(function: Function, cost: Cost) -> Function:
    @pass_context
    def bounded(context: RenderContext, value: Any, *operands: Any, **options: Any) -> Any:
        operations = context.operations
        if operands or options or type(value) not in _TEXTS or len(value) > BIG:
            cost(operations, value, *operands, **options)
        return operations.meter.keep(function(value, *operands, **options))

    return bounded


def _argument(passed: _PassArg, context: RenderContext) -> Any:
    """What Jinja passes to a function that asks for it."""
    if passed is _PassArg.context:
        return context
    return context.eval_ctx if passed is _PassArg.eval_context else context.environment


# --- tests ----------------------------------------------------------------------------------------

# They look at no more than a value's type or identity.
_FREE_TESTS: Final = frozenset(
    {
        *("boolean", "callable", "defined", "escaped", "false", "float", "integer", "iterable", "mapping", "none"),
        *("number", "sameas", "sequence", "string", "true", "undefined"),
    }
)
_COMPARISONS: Final = {
    **dict.fromkeys(("==", "eq", "equalto"), "eq"),
    **dict.fromkeys(("!=", "ne"), "ne"),
    **dict.fromkeys((">", "gt", "greaterthan"), "gt"),
    **dict.fromkeys((">=", "ge"), "gteq"),
    **dict.fromkeys(("<", "lt", "lessthan"), "lt"),
    **dict.fromkeys(("<=", "le"), "lteq"),
}


def bounded_test(name: str, function: Function) -> Function:
    """The test `function` of that name; one that looks at no more than a value's type needs no bound."""
    apply: Function
    if name in _COMPARISONS:
        comparison = _COMPARISONS[name]

        def apply(operations: Operations, left: Any, right: Any) -> Any:
            return operations.compare(comparison, left, right)

    elif name == "in":
        apply = Operations.within
    elif name in ("odd", "even", "divisibleby"):

        def apply(operations: Operations, value: Any, num: Any = 2) -> bool:
            return bool(operations.operate("%", value, num) == int(name == "odd"))

    elif name in ("lower", "upper"):

        def apply(operations: Operations, value: Any) -> Any:
            printed(operations, value)
            return function(operations.text(value))

    elif name in _FREE_TESTS:
        return function
    else:

        def apply(operations: Operations, *operands: Any) -> Any:
            odd(operations, *operands)
            return function(*operands)

    @pass_context
    def bounded(context: RenderContext, *operands: Any) -> Any:
        return apply(context.operations, *operands)

    return bounded


@pass_context
def is_filter(context: RenderContext, value: Any) -> bool:
    """Jinja's test of that name."""
    return context.operations.walk(value) in context.environment.filters


@pass_context
def is_test(context: RenderContext, value: Any) -> bool:
    """Jinja's test of that name."""
    return context.operations.walk(value) in context.environment.tests
