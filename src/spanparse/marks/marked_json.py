"""`tojson` that remembers which value each character stands for."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from json.encoder import (  # type: ignore[attr-defined] # typeshed leaves out the first, which is None without C
    c_make_encoder,
    encode_basestring,
    encode_basestring_ascii,
)
from typing import Any, Final

from spanparse.marks.marked import Marked, concat
from spanparse.marks.origin import NOWHERE, Origin, Run
from spanparse.marks.tracked import TrackedDict, TrackedFloat, TrackedInt, TrackedList, origin_of

_LONGEST_STYLE = 16
_new = tuple.__new__
_NUMBERS: Final[frozenset[type]] = frozenset({int, float, bool, TrackedInt, TrackedFloat})


def _encode(
    ensure_ascii: bool, indent: int | str | None, separators: tuple[str, str] | None, sort_keys: bool
) -> Callable[[Any], str]:
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    if indent is not None or c_make_encoder is None:
        return encoder.encode
    # `encode` makes another of these at every call, with a dict to tell what holds itself, as no value here does.
    chunks = c_make_encoder(
        None,
        encoder.default,
        _escape(ensure_ascii),
        None,
        encoder.key_separator,
        encoder.item_separator,
        sort_keys,
        False,
        True,
    )
    return lambda value: "".join(chunks(value, 0))


_encode_in_style = lru_cache(maxsize=64, typed=True)(_encode)


def dump_plain(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """`json.dumps` with the defaults of transformers' `tojson`; it keeps the encoders that are asked for often."""
    if isinstance(value, str):
        return _escape(ensure_ascii)(value)
    if type(value) is int:
        return int.__repr__(value)
    usual = not isinstance(indent, str) and (separators is None or type(separators) is tuple)
    if usual and (separators is None or sum(map(len, separators)) < _LONGEST_STYLE):
        return _encode_in_style(ensure_ascii, indent, separators, sort_keys)(value)
    return _encode(ensure_ascii, indent, separators, sort_keys)(value)


def dumps(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    *,
    detailed: bool = True,
) -> str:
    """What `json.dumps` gives, with marks: each value comes from its own place in the request.

    Unless `detailed`, a tool's schema and a call's arguments are one value each, which is much quicker. Brackets and
    keys of a container that the template made itself are the template's text. What json.dumps prints in ways of its
    own, such as keys that are no strings, has no marks: an ordinary string.
    """
    style = (ensure_ascii, indent, separators, sort_keys)
    kind = type(value)
    if kind is TrackedInt:
        return str(value)
    if kind is Marked:
        return _quoted(value, origin_of(value) or NOWHERE, ensure_ascii)
    if (kind is TrackedDict or kind is TrackedList) and not detailed and _is_unit(value._place.origin):
        return Marked.whole(dump_plain(value._plain, *style), value._place.origin)
    if not isinstance(value, (dict, list, tuple, TrackedFloat)):
        return dump_plain(value, *style)
    writer = _Writer(*style, detailed)
    writer.write(value, NOWHERE, 0)
    marked = writer.written()
    if writer.is_sure:
        return marked
    text = dump_plain(value, *style)
    return marked if marked == text else text


def _is_unit(origin: Origin) -> bool:
    """Whether a container is printed as one value: each tool, and the arguments of each call."""
    path = origin.path
    return (len(path) > 1 and path[0] == "tools") or "arguments" in path


def _quoted(value: Marked, around: Origin, ensure_ascii: bool) -> Marked:
    """The JSON of the text `value`, in quotes of `around`: characters keep their places where none is escaped."""
    escape = _escape(ensure_ascii)
    text = escape(value)
    if len(text) == len(value) + 2:
        inner = [_new(Run, (start + 1, end + 1, field, source)) for start, end, field, source in value._runs]
        last = len(text) - 1
        return Marked(text, (_new(Run, (0, 1, around, -1)), *inner, _new(Run, (last, last + 1, around, -1))))
    if value._origin is around:
        return Marked.whole(text, around)
    quote = Marked.whole('"', around)
    parts: list[str] = [quote]
    plain, at = str.__str__(value), 0
    for run in value._runs:
        parts.append(escape(plain[at : run.start])[1:-1])
        parts.append(Marked.whole(escape(plain[run.start : run.end])[1:-1], run.origin))
        at = run.end
    return concat([*parts, escape(plain[at:])[1:-1], quote])


def _escape(ensure_ascii: bool) -> Callable[[str], str]:
    return encode_basestring_ascii if ensure_ascii else encode_basestring


def _origin_in(value: Any, parent: Origin) -> Origin:
    """The origin of what is written of `value` itself; the template writes a container that it made."""
    origin = origin_of(value)
    if origin is None:
        return parent
    return origin.as_literal() if type(value) is dict else origin


class _Writer:
    """Writes the JSON text of values with marks; `is_sure` that it is what json.dumps gives."""

    def __init__(
        self,
        ensure_ascii: bool,
        indent: int | str | None,
        separators: tuple[str, str] | None,
        sort_keys: bool,
        detailed: bool,
    ) -> None:
        self._parts: list[str] = []
        # What has been written of one origin, not yet among the parts: more of it may follow.
        self._texts: list[str] = []
        self._origin: Origin | None = NOWHERE
        self.is_sure = separators is None and not isinstance(indent, str)
        self._ascii = ensure_ascii
        self._indent = " " * indent if isinstance(indent, int) else indent
        self._comma, self._colon = separators or ("," if indent is not None else ", ", ": ")
        self._sort = sort_keys
        self._detailed = detailed

    def write(self, value: Any, parent: Origin, depth: int) -> None:
        """`parent` is the origin of what `value` is in: literal if the template made that."""
        origin = _origin_in(value, parent)
        if isinstance(value, (dict, list)) and not self._detailed and _is_unit(origin):
            plain = value._plain if isinstance(value, (TrackedDict, TrackedList)) else value
            text = dump_plain(plain, self._ascii, self._indent, (self._comma, self._colon), self._sort)
            self._add(text if self._indent is None else text.replace("\n", "\n" + self._indent * depth), origin)
        elif isinstance(value, str):
            self._string(value, origin)
        elif isinstance(value, dict):
            self.is_sure = self.is_sure and all(isinstance(key, str) for key in dict.keys(value))
            items = sorted(value.items()) if self._sort else list(value.items())
            self._container("{", "}", [(key, item) for key, item in items], origin, depth)
        elif isinstance(value, (list, tuple)):
            self._container("[", "]", [(None, item) for item in value], origin, depth)
        else:
            self.is_sure = self.is_sure and (value is None or type(value) in _NUMBERS)
            known = not origin.literal or value is None or isinstance(value, bool)
            self._add(json.dumps(value, ensure_ascii=self._ascii), origin if known else None)

    def _container(self, opening: str, closing: str, items: list[tuple[Any, Any]], origin: Origin, depth: int) -> None:
        if not items:
            self._add(opening + closing, origin)
            return
        inner = "" if self._indent is None else "\n" + self._indent * (depth + 1)
        outer = "" if self._indent is None else "\n" + self._indent * depth
        self._add(opening + inner, origin)
        for place, (key, item) in enumerate(items):
            if place:
                self._add(self._comma + inner, origin)
            if key is not None:
                self._string(str(key), origin_of(key) or origin)
                self._add(self._colon, origin)
            self.write(item, origin, depth + 1)
        self._add(outer + closing, origin)

    def _string(self, value: str, origin: Origin) -> None:
        value = str(value)  # HTML keeps its marks
        if type(value) is Marked:
            self._end()
            self._parts.append(_quoted(value, origin, self._ascii))
        else:
            # In a container that the template made, it lost its marks.
            self._add(_escape(self._ascii)(value), None if origin.literal else origin)

    def _add(self, text: str, origin: Origin | None) -> None:
        if origin is not self._origin:
            self._end()
            self._origin = origin
        self._texts.append(text)

    def _end(self) -> None:
        if self._texts:
            text = "".join(self._texts)
            self._parts.append(text if self._origin is None else Marked.whole(text, self._origin))
            self._texts.clear()

    def written(self) -> Marked:
        """All that was written."""
        self._end()
        return concat(self._parts)
