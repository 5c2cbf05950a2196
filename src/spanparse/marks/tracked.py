"""The request as a template sees it during a marked render: the same values, each knowing its path.

Templates receive `TrackedDict` and `TrackedList`, which are a `dict` and a `list` in every respect, with `Marked`
strings inside. Keys and numbers are tracked too where a template may print them: in tool schemas and tool call
arguments.
"""

from __future__ import annotations

from typing import Any, final

from spanparse.marks.marked import Marked
from spanparse.marks.origin import Origin, Path


@final
class TrackedDict(dict[str, Any]):
    """A dict whose place in the request is `_origin`."""

    __slots__ = ("_origin",)
    _origin: Origin

    def __init__(self, values: dict[str, Any], origin: Origin) -> None:
        super().__init__(values)
        self._origin = origin

    def __str__(self) -> str:
        return Marked.whole(repr(self), self._origin)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


@final
class TrackedList(list[Any]):
    """A list whose place in the request is `_origin`."""

    __slots__ = ("_origin",)
    _origin: Origin

    def __init__(self, values: list[Any], origin: Origin) -> None:
        super().__init__(values)
        self._origin = origin

    def __str__(self) -> str:
        return Marked.whole(repr(self), self._origin)

    def __reduce__(self) -> Any:
        return list, (list(self),)


@final
class TrackedInt(int):
    """A number whose digits, when printed, come from its place in the request."""

    _origin: Origin

    def __str__(self) -> str:
        return Marked.whole(int.__repr__(self), self._origin)

    def __reduce__(self) -> Any:
        return int, (int(self),)


@final
class TrackedFloat(float):
    """A number whose digits, when printed, come from its place in the request."""

    _origin: Origin

    def __str__(self) -> str:
        return Marked.whole(float.__repr__(self), self._origin)

    def __reduce__(self) -> Any:
        return float, (float(self),)


def track(value: Any, path: Path, printable: bool = False) -> Any:
    """A copy of the JSON value `value` in which every container and string knows its path.

    With `printable`, so do the keys and numbers inside, as they do in tool call arguments in any case.
    """
    kind = type(value)
    if kind is str:
        return Marked.whole(value, Origin(path), 0)
    if kind is dict:
        result = {}
        for key, item in value.items():
            below = (*path, key)
            name = Marked.whole(key, Origin(below)) if printable and isinstance(key, str) else key
            result[name] = track(item, below, printable or key == "arguments")
        return TrackedDict(result, Origin(path))
    if kind is list:
        return TrackedList([track(item, (*path, i), printable) for i, item in enumerate(value)], Origin(path))
    if printable and isinstance(value, (int, float)) and not isinstance(value, bool):
        number = TrackedInt(value) if isinstance(value, int) else TrackedFloat(value)
        number._origin = Origin(path)
        return number
    return value


def origin_of(value: Any) -> Origin | None:
    """The origin of what a loop may hold; None for anything that is not from the request.

    That is a tracked container or number, a marked string with its first field, or a message that the template rebuilt.
    """
    if isinstance(value, (TrackedDict, TrackedList, TrackedInt, TrackedFloat)):
        return value._origin
    if isinstance(value, Marked):
        for run in value._runs:
            if not run.origin.literal:
                return run.origin
    if type(value) is dict:
        return _rebuilt_from(value)
    return None


def _rebuilt_from(values: dict[Any, Any]) -> Origin | None:
    """The message that a dict made by the template (`{'role': …, 'content': …}`) takes its content from."""
    for field in ("content", "role"):
        origin = origin_of(values.get(field))
        if origin is not None and origin.message is not None:
            return Origin(origin.path[:2])
    return None


def common_origin(value: Any) -> Origin | None:
    """The origin that all tracked values inside an untracked container share, as the longest common path."""
    known = origin_of(value)
    if known is not None:
        return known
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    shared: Path | None = None
    for item in items:
        origin = common_origin(item)
        if origin is None:
            continue
        if shared is None:
            shared = origin.path
        else:
            same = 0
            for a, b in zip(shared, origin.path, strict=False):
                if a != b:
                    break
                same += 1
            shared = shared[:same]
    return Origin(shared) if shared else None
