"""The request as a template sees it during a marked render: the same values, each knowing its path.

Templates receive `TrackedDict` and `TrackedList`, which are a `dict` and a `list` in every respect, with `Marked`
strings inside. Keys and numbers are tracked too where a template may print them: in tool schemas and tool call
arguments. Few values of a long conversation are ever looked at, so a dict tracks its own when it is first asked for
them; what C code reads past its methods (a length, a comparison, `repr`) is the same before and after.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, Final, final

from spanparse.marks.marked import Marked, concat
from spanparse.marks.origin import NOWHERE, Origin
from spanparse.marks.place import Place

_new_string = str.__new__
UNTRACKED: Final = frozenset({str, dict, list, int, float})
"""Types of values in a tracked dict that are not tracked yet."""


@final
class TrackedDict(dict[str, Any]):
    """A dict that stands at `_place` in the request; `_plain` is the dict that the caller gave.

    Some of its keys may be `_renamed`: what is under them stands in the request under the other name. Names with an
    underscore are out of reach of sandboxed templates.
    """

    __slots__ = ("_open", "_place", "_plain", "_printable", "_renamed")
    _place: Place
    _plain: dict[str, Any]
    _printable: bool
    _open: bool
    _renamed: Mapping[str, str] | None

    def __str__(self) -> str:
        return represent(self)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        return self._tracked(key, value) if type(value) in UNTRACKED else value

    def _tracked(self, key: str, value: Any) -> Any:
        """`value`, which stands untracked under `key`, tracked from now on."""
        place = self._place_of(key)
        if type(value) is str:
            value = Marked.whole(value, place.origin, 0)
        else:
            value = track(value, place, self._printable or key == "arguments")
        dict.__setitem__(self, key, value)
        return value

    def _place_of(self, key: str) -> Place:
        return self._place[key if self._renamed is None else self._renamed.get(key, key)]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - this is get

    def _opened(self) -> TrackedDict:
        """This dict, with all its values tracked, and its keys if these may be printed."""
        if not self._open:
            self._open = True
            tracked = {}
            for key, value in dict.items(self):
                place = self._place_of(key)
                if type(value) in UNTRACKED:
                    value = track(value, place, self._printable or key == "arguments")
                tracked[Marked.whole(key, place.origin) if self._printable and isinstance(key, str) else key] = value
            dict.clear(self)
            dict.update(self, tracked)
        return self

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._opened())

    def __reversed__(self) -> Iterator[str]:
        return dict.__reversed__(self._opened())

    def keys(self) -> KeysView[str]:  # type: ignore[override] # a view like dict's, whose type cannot be named
        return dict.keys(self._opened())

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        return dict.values(self._opened())

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        return dict.items(self._opened())

    def copy(self) -> dict[str, Any]:
        return dict(self)


DICT_ATTRIBUTES: Final = frozenset(dir(TrackedDict))
"""Names under which a template finds a method of a dict before a field."""


@final
class TrackedList(list[Any]):
    """A list that stands at `_place` in the request; `_plain` is the list that the caller gave."""

    __slots__ = ("_place", "_plain")
    _place: Place
    _plain: list[Any]

    def __str__(self) -> str:
        return represent(self)

    def __reduce__(self) -> Any:
        return list, (list(self),)


@final
class TrackedInt(int):
    """A number whose digits, when printed, come from its place in the request."""

    _place: Place

    def __str__(self) -> str:
        return Marked.whole(int.__repr__(self), self._place.origin)

    def __reduce__(self) -> Any:
        return int, (int(self),)


@final
class TrackedFloat(float):
    """A number whose digits, when printed, come from its place in the request."""

    _place: Place

    def __str__(self) -> str:
        return Marked.whole(float.__repr__(self), self._place.origin)

    def __reduce__(self) -> Any:
        return float, (float(self),)


def track(value: Any, place: Place, printable: bool = False) -> Any:
    """The JSON value `value` as one that knows its place, and so does every container and string inside it.

    With `printable`, so do the keys and numbers inside, as they do in tool call arguments in any case.
    """
    kind = type(value)
    if kind is str:
        return Marked.whole(value, place.origin, 0)
    if kind is dict:
        return track_dict(value, value, place, printable)
    if kind is list:
        return track_list([track(item, place[i], printable) for i, item in enumerate(value)], value, place)
    if printable and isinstance(value, (int, float)) and not isinstance(value, bool):
        number = TrackedInt(value) if isinstance(value, int) else TrackedFloat(value)
        number._place = place
        return number
    return value


def track_dict(values: dict[str, Any], plain: dict[str, Any], place: Place, printable: bool = False) -> TrackedDict:
    """A tracked dict of `values`, which `plain` holds untracked."""
    tracked = TrackedDict(values)
    tracked._place = place
    tracked._plain = plain
    tracked._printable = printable
    tracked._open = False
    tracked._renamed = None
    return tracked


def track_message(
    fields: dict[str, Any], place: Place, texts: Sequence[str] = (), renamed: Mapping[str, str] | None = None
) -> TrackedDict:
    """A message tracked, and those of `texts` that it has, which are about to be asked for.

    `renamed` are keys of which the value stands in the request under another name.
    """
    tracked = TrackedDict(fields)
    tracked._place = place
    tracked._plain = fields
    tracked._printable = tracked._open = False
    tracked._renamed = renamed
    for name in texts:
        if type(value := fields.get(name)) is str:
            text = _new_string(Marked, value)
            text._origin = (place[name] if renamed is None else tracked._place_of(name)).origin
            text._source = 0
            tracked[name] = text
    return tracked


def track_list(items: list[Any], plain: list[Any], place: Place) -> TrackedList:
    """A tracked list of `items`, tracked values of which `plain` holds the untracked ones."""
    tracked = TrackedList(items)
    tracked._place = place
    tracked._plain = plain
    return tracked


def represent(value: Any) -> str:
    """What Python's `repr` says of a container, each value in it marked with its own place.

    Brackets of one that the template made are the template's. An ordinary string if a text in it lost its marks.
    """
    parts = [*_representation(value, None)]
    return concat(parts) if all(type(part) is Marked for part in parts) else "".join(parts)


def _representation(value: Any, parent: Origin | None) -> Iterator[str]:
    kind = type(value)
    tracked = kind is TrackedDict or kind is TrackedList
    frame = value._place.origin if tracked else parent or NOWHERE
    inner = frame if tracked else parent
    if kind is TrackedDict or kind is dict:
        yield Marked.whole("{", frame)
        for place, (key, item) in enumerate(value.items()):
            yield Marked.whole(", " if place else "", frame)
            yield from _representation(key, inner)
            yield Marked.whole(": ", frame)
            yield from _representation(item, inner)
        yield Marked.whole("}", frame)
    elif kind is TrackedList or kind is list or kind is tuple:
        yield Marked.whole("(" if kind is tuple else "[", frame)
        for place, item in enumerate(value):
            yield Marked.whole(", " if place else "", frame)
            yield from _representation(item, inner)
        yield Marked.whole(("," if len(value) == 1 else "") + ")" if kind is tuple else "]", frame)
    elif kind is Marked:
        whole = value._origin if value else parent or NOWHERE
        yield repr(value) if whole is None else Marked.whole(repr(value), whole)
    elif origin := origin_of(value) or parent:
        yield Marked.whole(repr(value), origin)
    else:
        yield Marked(repr(value)) if value is None or kind in UNTRACKED else repr(value)


def origin_of(value: Any) -> Origin | None:
    """The origin of what a loop may hold; None for anything that is not from the request.

    That is a tracked container or number, a marked string with its first field, or a message that the template rebuilt.
    """
    kind = type(value)
    if kind is TrackedDict or kind is TrackedList or kind is TrackedInt or kind is TrackedFloat:
        return value._place.origin  # type: ignore[no-any-return]
    if kind is Marked:
        whole = value._origin
        if whole is not None:
            return None if whole.literal else whole
        for run in value._pieces:
            if not run.origin.literal:
                return run.origin  # type: ignore[no-any-return]
    if kind is dict:
        return _rebuilt_from(value)
    return None


def _rebuilt_from(values: dict[Any, Any]) -> Origin | None:
    """The message that a dict made by the template (`{'role': …, 'content': …}`) takes its content from."""
    for field in ("content", "role"):
        origin = origin_of(values.get(field))
        if origin is not None and origin.message is not None:
            return Origin(origin.path[:2])
    return None
