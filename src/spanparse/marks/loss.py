"""Texts that lost their marks: which fields of a request they may show, and how to tell them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set, ValuesView
from typing import Any, Final, NamedTuple

from jinja2.utils import Namespace

from spanparse.marks.marked import Marked, Runs
from spanparse.marks.marked_safe import SafeMarked
from spanparse.marks.origin import Origin
from spanparse.marks.tracked import TrackedDict, TrackedFloat, TrackedInt, TrackedList

_TRACKED: Final[frozenset[type]] = frozenset((TrackedDict, TrackedList, TrackedInt, TrackedFloat))
_MESSAGES: Final = ("messages",)


class Loss(NamedTuple):
    """An `operation` made something of `fields` that no longer says so, when there were so many `outputs`.

    Without fields it may have been any.
    """

    fields: tuple[Origin, ...]
    operation: str
    outputs: int


def fields_in(*values: Any) -> tuple[Origin, ...]:
    """The fields of the request that show in `values` or inside them."""
    found: dict[Origin, None] = {}
    for value in _walk(values):
        if isinstance(value, str):
            found.update((run.origin, None) for run in _runs(value) if run.start < run.end and not run.origin.literal)
        elif type(value) in _TRACKED and value._place.origin.path != _MESSAGES:
            found[value._place.origin] = None
    return tuple(found)


def may_hold_any(*values: Any) -> bool:
    """Whether there is something among `values` that is gone once it was looked into."""
    return any(isinstance(value, Iterator) for value in _walk(values))


def is_unmarked(value: Any) -> bool:
    """Whether there is text or a number in `value` that does not say where it comes from."""
    return any(map(_is_bare, _walk((value,))))


def _is_bare(value: Any) -> bool:
    if isinstance(value, str):
        return sum(run.end - run.start for run in _runs(value)) < len(value)
    if isinstance(value, (int, float, complex)):
        return type(value) not in _TRACKED and type(value) is not bool
    return isinstance(value, (bytes, bytearray)) and bool(value)


def _runs(text: str) -> Runs:
    if type(text) is Marked:
        return text._runs
    return text._pieces if type(text) is SafeMarked else ()


def _walk(values: tuple[Any, ...]) -> Iterator[Any]:
    """`values` and what they hold, each container once; of what is tracked only messages are gone into."""
    found = list(values)
    seen = set()
    for value in found:
        yield value
        if isinstance(value, (str, int, float, bytes)) or value is None or id(value) in seen:
            continue
        seen.add(id(value))  # `found` keeps it alive
        if type(value) not in _TRACKED or value._place.origin.path == _MESSAGES:
            found.extend(_items(value))


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, Namespace):
        value = object.__getattribute__(value, "_Namespace__attrs")
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (list, tuple, Set, ValuesView)):
        yield from value
