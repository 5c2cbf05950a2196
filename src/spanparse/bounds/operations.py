"""The operations of compiled templates, bounded: what guards ask, and what runs in the place of Python's own.

Each gives what Python's operation gives, or raises `LimitReached` before one that would run past the limits.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from types import NoneType
from typing import Any, Final, final

from jinja2.runtime import Undefined, markup_join
from markupsafe import Markup

from spanparse.bounds.limits import BIG, MAX_BITS, RUN_BYTES, SMALL, LimitReached, Meter
from spanparse.bounds.weight import Weight, weigh
from spanparse.marks.marked import Marked

REPR_GROWTH: Final = 10
"""Characters of the longest escape in a printed container: `\\U0010ffff`."""

ESCAPE_GROWTH: Final = 6
"""Characters of the longest escape in HTML and, but for the two of a surrogate pair, in JSON."""

FLAT: Final = frozenset({str, Marked, int, bool, float, NoneType})
"""Types whose values hold no others."""

_CONVERSION: Final = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(\*|\d+)?(?:\.(\*|\d+))?[hlL]?(.)", re.DOTALL)
_FLOAT_DIGITS: Final = 330
_MAX_ARGUMENTS: Final = 100_000
_MOST_HASHED: Final = 300
# Up to this length Python looks for texts in ways that can take the product of both lengths.
_SHORT_SEARCHED: Final = 30_000
_FEW: Final = 32
# Nanoseconds that a character of a value's printed form stands for, and that two values take to be told apart.
_WALKED_CHARACTER: Final = 8
_COMPARED: Final = 40
# Nanoseconds that an item of a container takes to be weighed, and a piece of a text to be made.
_WEIGHED_ITEM: Final = 500
_PIECE: Final = 120
_MARKED_PIECE: Final = 2_500
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "**": operator.pow,
    "%": operator.mod,
}
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}


@final
class Operations:
    """The operations of one render. `concat` is the environment's way of joining texts.

    `steps` gives nothing, once for each loop iteration and macro call, and raises `LimitReached` after the last one.
    """

    __slots__ = ("_concat", "_shown", "_sought", "meter", "steps")

    def __init__(self, meter: Meter, concat: Callable[[Iterable[str]], str]) -> None:
        self.meter = meter
        # It refers to the meter, which must not refer to it: both are to go with the render.
        self.steps = chain.from_iterable(meter.stretches())
        self._concat = concat
        self._sought: list[Any] = []
        self._shown = 0

    # --- values that are walked to their depth ----------------------------------------------------

    def weigh(self, value: Any) -> Weight:
        """The weight of `value`, if an operation may walk it."""
        weight = weigh(value, self.meter.limits.characters, self._visit)
        if weight.characters > SMALL:
            self.meter.afford(weight.characters, _WALKED_CHARACTER)
        return weight

    def _visit(self, items: int) -> None:
        self.meter.afford(items, _WEIGHED_ITEM)

    def walk(self, value: Any) -> Any:
        """`value`, which is about to be hashed, compared or printed."""
        if type(value) not in FLAT:
            self.weigh(value)
        return value

    def spread(self, values: Any) -> Any:
        """`values`, which are about to become the arguments of a call."""
        if hasattr(values, "__len__"):
            if len(values) > _MAX_ARGUMENTS:
                raise LimitReached(f"makes a call with more than {_MAX_ARGUMENTS:,} arguments")
            self.meter.charge(len(values) << 4)
        return values

    def sized(self, values: Any) -> Any:
        """`values` as a container, which can be looked at before it is gone through."""
        if isinstance(values, (str, list, tuple, dict)):
            return values
        found = []
        for value in values:
            next(self.steps)
            found.append(value)
        return self.meter.keep(found)

    def one_by_one(self, values: Any) -> Iterator[Any]:
        """The items of `values`, which a filter goes through without giving one for each."""
        for value in values:
            next(self.steps)
            if isinstance(value, str) and len(value) > BIG:
                self.meter.afford(len(value), 8)  # it may be hashed and compared in lower case
            yield value

    # --- texts -------------------------------------------------------------------------------------

    def pieces(self, text: str, count: int) -> None:
        """The text is about to become so many pieces."""
        plain = type(text) is str
        self.meter.expect_items(count, 64 if plain else 400)
        self.meter.afford(count, _PIECE if plain else _MARKED_PIECE)

    def text(self, value: Any) -> str:
        """`str(value)`."""
        kind = type(value)
        if kind is str or kind is Marked:
            return value  # type: ignore[no-any-return]
        if isinstance(value, (str, int, float, Undefined)):
            return str(value)
        self.meter.expect(self.weigh(value).characters, REPR_GROWTH)
        return self.meter.keep(str(value))

    def textual(self, value: Any) -> Any:
        """What is printed of `value`, which is left as it is if it is text of any kind."""
        return value if isinstance(value, str) else self.text(value)

    def addend(self, value: Any) -> Any:
        """`value`, which is about to be joined to what may count as HTML."""
        if isinstance(value, str) and len(value) > BIG:
            self.meter.expect(len(value), ESCAPE_GROWTH)
        return value

    def shown(self, value: Any) -> Any:
        """`value`, which is about to be put out where it may be escaped."""
        text = self.textual(value)
        self._shown += len(text)
        self.meter.expect(self._shown, ESCAPE_GROWTH)
        return text

    def joined(self, parts: Iterable[str]) -> str:
        """The concatenation of `parts`."""
        if not isinstance(parts, (list, tuple)):
            parts = self._collected(parts)
        size = sum(map(len, parts))
        if size > BIG:
            self.meter.expect(size)
        return self.meter.keep(self._concat(parts))

    def _collected(self, parts: Iterable[str]) -> list[str]:
        found: list[str] = []
        size = 0
        for part in parts:
            next(self.steps)
            size += len(part)
            self.meter.expect(size)
            found.append(part)
        return found

    def html(self, values: Iterable[Any], escaping: bool) -> str:
        """`values` joined where a template turns autoescaping on: escaped if one of them is HTML."""
        parts = [value if isinstance(value, str) else self.text(value) for value in values]
        self.meter.expect(sum(map(len, parts)), ESCAPE_GROWTH)
        return self.meter.keep(markup_join(parts) if escaping else "".join(parts))

    # --- arithmetic --------------------------------------------------------------------------------

    def operate(self, name: str, left: Any, right: Any) -> Any:
        """`left - right` and what else there is, by its operator."""
        if name == "*":
            for values, count in ((left, right), (right, left)):
                if isinstance(values, (str, bytes, list, tuple)) and isinstance(count, int):
                    self._repeat(values, count)
        elif name == "-" and (isinstance(left, Set) or isinstance(right, Set)):
            self._subtraction(left, right)
        elif name == "%" and isinstance(left, (str, bytes)):
            self.formatting(left, right)
        elif name == "**" and isinstance(left, int) and isinstance(right, int):
            self._bits(left.bit_length() * abs(right))
        if isinstance(left, int):
            self._bits(left.bit_length())
        if isinstance(right, int):
            self._bits(right.bit_length())
            if isinstance(left, int):
                # Digits of 30 bits, each of one with each of the other.
                self.meter.charge(left.bit_length() * right.bit_length() >> 10)
        return self.meter.keep(_ARITHMETIC[name](left, right))

    def _subtraction(self, left: Any, right: Any) -> None:
        """Sets hash all that is in them, and a template can choose numbers whose hashes are the same."""
        for values in (left, right):
            if isinstance(values, str):
                self.pieces(values, len(values))
            elif not hasattr(values, "__len__") or len(values) > _MOST_HASHED:
                raise LimitReached(f"makes a set of more than {_MOST_HASHED} values")
            else:
                self.weigh(values)

    def _bits(self, bits: int) -> None:
        if bits > MAX_BITS:
            raise LimitReached(f"makes an integer of more than {MAX_BITS:,} bits")

    def _repeat(self, values: Sequence[Any], count: int) -> None:
        if isinstance(values, str):
            self.meter.expect(len(values) * count)
            if type(values) is Marked and values._origin is None:
                self.meter.expect_items(len(values._runs) * count, RUN_BYTES)
        else:
            self.meter.expect_items(len(values) * count)

    def formatting(self, layout: str | bytes, values: Any) -> None:
        """Bound the result of `layout % values` from above."""
        if isinstance(layout, bytes):
            layout = layout.decode("latin-1")
        self.pieces(layout, str.count(layout, "%"))
        arguments = values if isinstance(values, tuple) else (values,)
        most = max(map(self._formatted, arguments), default=0)
        if isinstance(values, dict):
            most = max(map(self._formatted, values.values()), default=0) + self.weigh(values).characters
        largest = max((abs(value) for value in arguments if isinstance(value, int)), default=0)
        size = len(layout)
        for found in _CONVERSION.finditer(layout):
            width, precision, kind = found.groups()
            escapes = REPR_GROWTH if kind in "ra" else 1
            size += most * escapes
            for given in (width, precision):
                size += largest if given == "*" else int((given or "0")[:20])
            self.meter.expect(size, ESCAPE_GROWTH if isinstance(layout, Markup) else 1)

    def _formatted(self, value: Any) -> int:
        if isinstance(value, int):
            return value.bit_length() + 1  # in binary; no format has more digits
        return _FLOAT_DIGITS if isinstance(value, float) else self.weigh(value).characters

    # --- comparisons -------------------------------------------------------------------------------

    def compare(self, name: str, left: Any, right: Any) -> Any:
        """`left == right` and the like, by Jinja's names for them."""
        if type(left) in FLAT or type(right) in FLAT:
            if isinstance(left, str) and isinstance(right, str):
                self.meter.charge(min(len(left), len(right)))
        else:
            self.weigh(left)
        return _COMPARE[name](left, right)

    def compared(self, value: Any) -> Any:
        """`value`, which is about to be compared."""
        if type(value) not in FLAT:
            self.weigh(value)
        elif isinstance(value, str) and len(value) > BIG:
            self.meter.charge(len(value))
        return value

    def within(self, value: Any, container: Any) -> bool:
        """`value in container`."""
        self.searched_for(value, container)
        return value in container

    def sought(self, value: Any) -> Any:
        """`value`, which is about to be looked for in what `searched` is given next."""
        self._sought.append(value)
        return value

    def searched(self, container: Any) -> Any:
        """`container`, in which the last value is about to be looked for that `sought` was given."""
        self.searched_for(self._sought.pop(), container)
        return container

    def scanned(self, container: Any) -> Any:
        """`container`, in which a value that the template states is about to be looked for."""
        self.searched_for("", container)
        return container

    def looked_for(self, text: str, sought: Any) -> None:
        """A text is about to be gone through for another one, which Python may compare with it in many places."""
        size = len(text)
        if size > SMALL:
            if isinstance(sought, str) and len(sought) > SMALL and size < _SHORT_SEARCHED:
                size += len(sought) * max(0, size - len(sought)) >> 1
            self.meter.charge(size)

    def searched_for(self, value: Any, container: Any) -> None:
        """`container` is about to be gone through for `value`."""
        if isinstance(container, str):
            self.looked_for(container, value)
        elif type(value) not in FLAT:
            size = self.weigh(value).characters + 1
            if hasattr(container, "__len__"):
                self.meter.afford(len(container) * size, _WALKED_CHARACTER)
        elif hasattr(container, "__len__") and len(container) > _FEW:
            each = len(value) >> 3 if isinstance(value, str) else 0
            self.meter.afford(len(container), _COMPARED + each)
