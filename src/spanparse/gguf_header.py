"""The metadata at the front of a GGUF file, read without loading the file.

The file is mapped, the fields are walked once to learn where each one lies, and a value is decoded only when it is
asked for; arrays of strings (a vocabulary) are stepped over length by length. Layout after the GGUF specification in
ggml's `docs/gguf.md`, versions 2 and 3, either byte order.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, final

from spanparse.errors import SourceError

MAGIC: Final = b"GGUF"

_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_WHOLE_NUMBERS: Final = frozenset({0, 1, 2, 3, 4, 5, 10, 11})

# No real file comes near these; they bound the time a hostile one can cost.
_MAX_FIELDS: Final = 1 << 16
_MAX_STRINGS: Final = 1 << 23
_MAX_KEY_BYTES: Final = 1 << 16
_MAX_TEXT_BYTES: Final = 1 << 24


class _Field(NamedTuple):
    """Where one value lies: `type` of the value or of an array's elements; `length` is None unless it is an array.

    `begin` and `end` enclose the value with its type.
    """

    type: int
    offset: int
    length: int | None
    begin: int
    end: int


@final
class GgufHeader:
    """The metadata fields of one GGUF file; a context manager that holds the file mapped while it is open.

    `order` is the byte order as `struct` spells it. The descriptions of `n_tensors` tensors begin at byte `end`.

    Raises `SourceError` naming file, byte offset and field when the file is cut short or is not what it says.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Final = str(path)
        try:
            if not os.path.isfile(path) and os.path.exists(path):
                raise OSError(errno.EINVAL, "a GGUF has to be an ordinary file")  # a pipe would be waited for
            with open(path, "rb") as file:
                self._size = os.fstat(file.fileno()).st_size
                # An empty file cannot be mapped, and is no GGUF either.
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._size else None
        except OSError as error:
            raise SourceError(self.path, error.strerror or str(error)) from error
        self._position = 0
        self._strings_walked = 0
        try:
            self.order: Final = self._read_order()
            self._fields = self._walk()
            self.end: Final = self._position
        except SourceError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def close(self) -> None:
        """Unmaps the file; nothing can be read afterwards."""
        if self._map is not None:
            self._map.close()

    def text(self, key: str) -> str | None:
        """The string at `key`, None if there is no such field."""
        field = self._fields.get(key)
        if field is None:
            return None
        if field.type != _STRING or field.length is not None:
            raise self._error(key, field.offset, "is not a string")
        return self._decode(key, field.offset)[0]

    def integer(self, key: str) -> int | None:
        """The whole number at `key`, None if there is no such field."""
        field = self._fields.get(key)
        if field is None:
            return None
        if field.length is not None or field.type not in _WHOLE_NUMBERS:
            raise self._error(key, field.offset, "is not a whole number")
        (value,) = struct.unpack_from(self.order + _SCALARS[field.type], self._buffer, field.offset)
        return int(value)

    def count(self, key: str) -> int | None:
        """How many elements the array at `key` has, None if there is no such array."""
        field = self._fields.get(key)
        return None if field is None else field.length

    def strings(self, key: str, indexes: Collection[int]) -> dict[int, str]:
        """The elements at `indexes` of the string array at `key`.

        Raises `SourceError` if there is no such array or an index lies outside of it.
        """
        field = self._fields.get(key)
        if field is None or field.type != _STRING or field.length is None:
            raise self._error(key, 0 if field is None else field.offset, "is not an array of strings")
        for index in indexes:
            if not 0 <= index < field.length:
                raise self._error(key, field.offset, f"has {field.length} elements, number {index} was asked for")
        found: dict[int, str] = {}
        position, at = field.offset, 0
        for index in sorted(indexes):
            position = self._step(position, index - at, key)
            found[index], position = self._decode(key, position)
            at = index + 1
        return found

    def raw(self, key: str) -> bytes:
        """Type and value at `key` as the file spells them. Raises KeyError if there is no such field."""
        field = self._fields[key]
        return self._buffer[field.begin : field.end]

    @property
    def _buffer(self) -> mmap.mmap:
        assert self._map is not None
        return self._map

    def _error(self, field: str, offset: int, what: str) -> SourceError:
        return SourceError(self.path, f"GGUF field {field} at byte {offset} {what}")

    def _read_order(self) -> str:
        """Checks magic and version; returns the byte order as `struct` spells it."""
        if self._map is None or self._map[:4] != MAGIC:
            raise SourceError(self.path, "not a GGUF file (it does not start with GGUF)")
        if self._size < 24:
            raise self._error("header", 4, "is cut short")
        (version,) = struct.unpack_from("<I", self._map, 4)
        order = "<"
        if version and not version & 0xFFFF:
            # A big-endian file shows its small version number in the upper bytes.
            order = ">"
            (version,) = struct.unpack_from(">I", self._map, 4)
        if version not in (2, 3):
            raise self._error("version", 4, f"is {version}; versions 2 and 3 can be read")
        return order

    def _walk(self) -> dict[str, _Field]:
        """Learns where every field lies, in the file's order."""
        fields: dict[str, _Field] = {}
        self._position = 8
        self.n_tensors = self._take("Q", "tensor count")
        count = self._take("Q", "count")
        if count > _MAX_FIELDS:
            raise self._error("count", 16, f"says {count} fields, more than {_MAX_FIELDS}")
        for number in range(count):
            start = self._position
            key = self._take_key(f"number {number}")
            if key in fields:
                raise self._error(key, start, "appears twice")
            fields[key] = self._take_value(key)
        return fields

    def _take(self, code: str, field: str) -> int:
        size = struct.calcsize("<" + code)
        start = self._position
        if start + size > self._size:
            raise self._error(field, start, "is cut short")
        self._position = start + size
        (value,) = struct.unpack_from(self.order + code, self._buffer, start)
        return int(value)

    def _take_key(self, field: str) -> str:
        start = self._position
        length = self._take("Q", f"{field} (its name)")
        if length > _MAX_KEY_BYTES:
            raise self._error(f"{field} (its name)", start, f"says it is {length} bytes long")
        self._position = start
        key, self._position = self._decode(f"{field} (its name)", start)
        return key

    def _take_value(self, key: str) -> _Field:
        begin = self._position
        kind = self._take("I", key)
        count: int | None = None
        if kind == _ARRAY:
            kind = self._take("I", key)
            count = self._take("Q", key)
        start = self._position
        if kind == _STRING:
            self._position = self._step(start, 1 if count is None else count, key)
        elif kind in _SCALARS:
            end = start + struct.calcsize("<" + _SCALARS[kind]) * (1 if count is None else count)
            if end > self._size:
                raise self._error(key, start, f"is cut short: it ends at byte {end} of {self._size}")
            self._position = end
        else:
            raise self._error(key, start, f"has the unknown type {kind}")
        return _Field(kind, start, count, begin, self._position)

    def _step(self, position: int, count: int, key: str) -> int:
        """The position after `count` strings."""
        buffer, end = self._buffer, self._size
        if count > (end - position) // 8:
            raise self._error(key, position, f"is cut short: no room for {count} strings")
        self._strings_walked += count
        if self._strings_walked > _MAX_STRINGS:
            raise self._error(key, position, f"takes the strings of this file past {_MAX_STRINGS}")
        length_at = struct.Struct(self.order + "Q").unpack_from
        start, last = position, end - 8
        for _ in range(count):
            if position > last:
                raise self._error(key, start, f"is cut short: byte {position} of {end} is needed")
            position += 8 + length_at(buffer, position)[0]
        if position > end:
            raise self._error(key, start, f"is cut short: it ends at byte {position} of {end}")
        return position

    def _decode(self, key: str, position: int) -> tuple[str, int]:
        """The string at `position`, and the position after it."""
        end = self._step(position, 1, key)
        start = position + 8
        if end - start > _MAX_TEXT_BYTES:
            raise self._error(key, position, f"is a string of {end - start} bytes, more than {_MAX_TEXT_BYTES}")
        try:
            return self._buffer[start:end].decode("utf-8"), end
        except UnicodeDecodeError as error:
            raise self._error(key, start + error.start, "is not UTF-8") from error
