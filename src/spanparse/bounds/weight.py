"""How much an operation has to go through that walks a value to its depth: printing, comparing, hashing, sorting.

`{% set a = [a, a] %}` forty times makes forty small lists, whose printed form would fill any memory and which no
comparison would come to the end of; a tuple nested a million deep overflows the stack when it is hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set, ValuesView
from itertools import chain
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType
from typing import Any, Final, NamedTuple

from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.utils import Namespace

from spanparse.bounds.limits import LimitReached
from spanparse.marks.marked import Marked
from spanparse.marks.tracked import TrackedDict, TrackedList

MAX_DEPTH: Final = 200
"""Deepest nesting that is walked; `json.dumps` itself gives up at about five times that."""

# An item's share of brackets and separators, and about what any value prints as that is no text or container.
_ITEM: Final = 4
_OTHER: Final = 24
_FEW: Final = 300
_new: Final = tuple.__new__
_ITEMS_VIEW: Final[Any] = type(dict[str, str]().items())


# What prints as its kind and a name at most.
_PLAIN: Final = (Undefined, Macro, LoopContext, type, FunctionType, BuiltinMethodType)


class Weight(NamedTuple):
    """Size of a value's printed form, in characters, roughly and before escaping; its depth of nesting; its parts.

    `items` are all keys and values inside it, each as often as it is printed.
    """

    characters: int
    height: int
    items: int


_OPEN: Final = Weight(_ITEM, 0, 0)
"""Stands for a container while what is in it is weighed."""


def weigh(value: Any, most: int, visit: Callable[[int], object] = abs) -> Weight:
    """The weight of `value`; raises `LimitReached` if it has more than `most` characters or is nested too deeply.

    Takes time in proportion to the objects in `value`, each container of which is visited once however often it occurs;
    `visit` is told how many items one has before they are gone through, unless they are few in all, and may raise.
    """
    return _weigh_few(value, most) or _Scales(most, visit).weigh(value, 0)


def _weigh_few(value: Any, most: int) -> Weight | None:
    """The weight of a value of few and ordinary parts, level by level; None for any other."""
    level: list[Any] = [value]
    characters = height = seen = 0
    while True:
        below: list[Any] = []
        containers = False
        for item in level:
            kind = type(item)
            if kind is str or kind is Marked:
                characters += len(item)
            elif kind is dict or kind is TrackedDict:
                containers = True
                # A tracked dict's own methods would track what it holds.
                below += dict.keys(item)
                below += dict.values(item)
            elif kind is list or kind is TrackedList:
                containers = True
                below += item
            elif item is None or kind is bool or kind is float:
                characters += _OTHER
            elif isinstance(item, (int, float)):
                characters += max(_OTHER, item.bit_length() // 3) if isinstance(item, int) else _OTHER
            else:
                return None
        if not containers:
            return _new(Weight, (characters + _ITEM * seen, height, seen))
        height += 1
        seen += len(below)
        if seen > _FEW or height > MAX_DEPTH or characters > most:
            return None
        level = below


class _Scales:
    """Weighs one value; knows the weights of the containers in it that it has been through."""

    __slots__ = ("_known", "_most", "_visit")

    def __init__(self, most: int, visit: Callable[[int], object]) -> None:
        self._most = most
        self._visit = visit
        self._known: dict[int, Weight] = {}

    def weigh(self, value: Any, depth: int) -> Weight:
        if isinstance(value, str):
            return Weight(len(value), 0, 0)
        if value is None or isinstance(value, (int, float)):
            return Weight(max(_OTHER, value.bit_length() // 3) if isinstance(value, int) else _OTHER, 0, 0)
        items = _items(value)
        if items is None:
            return Weight(_printed(value), 0, 0)
        known = self._known
        found = known.get(id(value))
        if found is _OPEN:
            # Python prints such a place as an ellipsis, but how often it prints the rest depends on where it begins.
            raise LimitReached("makes a value that holds itself")
        if depth + (1 if found is None else found.height) > MAX_DEPTH:
            raise LimitReached(f"makes a value nested more than {MAX_DEPTH} levels deep")
        if found is not None:
            return found
        known[id(value)] = _OPEN
        self._visit(len(value) if hasattr(value, "__len__") else 1)
        characters = height = count = 0
        for item in items:
            inner = self.weigh(item, depth + 1)
            characters += inner.characters + _ITEM
            count += inner.items + 1
            height = max(height, inner.height)
            if characters > self._most:
                raise LimitReached(f"makes a value that prints as more than {self._most:,} characters")
        result = known[id(value)] = Weight(characters, height + 1, count)
        return result


def _items(value: Any) -> Iterable[Any] | None:
    """The values inside a container, none of which is made for the occasion; None for anything else."""
    if isinstance(value, dict):
        return chain(dict.keys(value), dict.values(value))
    if isinstance(value, (list, tuple, Set, ValuesView)) and type(value) is not _ITEMS_VIEW:
        return value
    if type(value) is _ITEMS_VIEW:
        mapping: Any = value.mapping
        return _keys_and_values(mapping)
    if isinstance(value, MappingProxyType):
        return _keys_and_values(value)
    if isinstance(value, MethodType):
        return (value.__self__,)  # of which the printed form shows all
    if isinstance(value, Namespace):
        # Jinja keeps a namespace's attributes to itself.
        attributes: dict[str, Any] = value._Namespace__attrs
        return _keys_and_values(attributes)
    return None


def _printed(value: Any) -> int:
    """About how many characters something prints as that is no container; what nobody knows is printed to see."""
    if isinstance(value, (bytes, range)):
        return len(value) * _ITEM
    return _OTHER if isinstance(value, _PLAIN) else len(repr(value))


def _keys_and_values(mapping: Any) -> Iterator[Any]:
    return chain(mapping.keys(), mapping.values())
