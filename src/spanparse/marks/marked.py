"""A string that remembers, beside its characters, where each of them came from.

`Marked` is an ordinary `str` to everything that looks at it: it compares, hashes, tests and prints as its text. The
operations that chat templates use on strings return `Marked` results whose runs follow the characters, so that one
ordinary render of an unchanged template carries the origin of its text along. An operation whose result cannot be
followed returns an ordinary `str`: its caller records the loss.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex, final

from spanparse.marks.origin import NOWHERE, Origin, Run

Runs = tuple[Run, ...]

# Runs are made by the thousand; a NamedTuple's own constructor is a Python function.
_new = tuple.__new__
_new_string = str.__new__
_START = operator.itemgetter(0)
_CONVERSION = re.compile(r"%.?", re.DOTALL)
_SPACE = " "


@final
class Marked(str):
    """Text with `_runs`: sorted, disjoint runs; characters outside of them have no known origin.

    A run without characters says that a field stands there which is empty, or of which nothing is left.

    Most texts come from one place as a whole: they hold just that, as `_origin` and `_source`, and no runs. The others
    have None for an origin and hold their runs as `_pieces`. Underscores keep all of it out of reach of sandboxed
    templates.
    """

    __slots__ = ("_origin", "_pieces", "_source")
    _origin: Origin | None
    _pieces: Runs
    _source: int

    def __new__(cls, text: object = "", runs: Runs = ()) -> Marked:
        self = _new_string(Marked, text)
        self._origin = None
        self._pieces = runs
        return self

    @classmethod
    def whole(cls, text: str, origin: Origin, source: int = -1) -> Marked:
        """All of `text` from one origin; an empty text keeps that of a field."""
        self = _new_string(Marked, text)
        if text or not origin[1]:
            self._origin = origin
            self._source = source
        else:
            self._origin = None
            self._pieces = ()
        return self

    @property
    def _runs(self) -> Runs:
        if self._origin is None:
            return self._pieces
        return (_new(Run, (0, len(self), self._origin, self._source)),)

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> Any:
        return Marked, (str.__str__(self), self._runs)

    def _cut(self, start: int, end: int) -> Marked:
        """The slice [start, end) with 0 <= start <= end <= len(self)."""
        if end - start == len(self):
            return self
        if start == end and self._origin is not None and self._origin.literal:
            return Marked("")
        text = _new_string(Marked, str.__getitem__(self, slice(start, end)))
        text._origin = self._origin
        if self._origin is None:
            text._pieces = self._cut_runs(start, end)
        else:
            text._source = self._source + start if self._source >= 0 else -1
        return text

    def _cut_runs(self, start: int, end: int) -> Runs:
        runs = []
        for at in range(self._run_at(start), len(self._pieces)):
            run = self._pieces[at]
            if run.start > end:
                break
            left = run.start if run.start > start else start
            right = run.end if run.end < end else end
            if left >= right and run.start < run.end:
                continue
            source = run.source + left - run.start if run.source >= 0 else -1
            runs.append(_new(Run, (left - start, right - start, run.origin, source)))
        return tuple(runs)

    def _run_at(self, offset: int) -> int:
        """Index of a run before which all end by `offset`."""
        return max(0, bisect_left(self._runs, offset, key=_START) - 1)

    def __getitem__(self, key: SupportsIndex | slice) -> Marked:
        size = len(self)
        if isinstance(key, slice):
            start, stop, step = key.indices(size)
            if step == 1:
                return self._cut(start, max(start, stop))
            return self._stepped(range(start, stop, step), str.__getitem__(self, key))
        index = operator.index(key)
        if not -size <= index < size:
            raise IndexError("string index out of range")
        index %= size
        return self._cut(index, index + 1)

    def _stepped(self, offsets: range, text: str) -> Marked:
        """`text`, the characters at `offsets`, which are not next to each other or run backwards."""
        runs: list[Run] = []
        for run in self._runs if offsets.step > 0 else reversed(self._runs):
            first, last = _steps_inside(offsets, run.start), _steps_inside(offsets, run.end)
            start, end = (first, last) if offsets.step > 0 else (last, first)
            if start < end:
                source = run.source + offsets[start] - run.start if run.source >= 0 and end - start == 1 else -1
                runs.append(_new(Run, (start, end, run.origin, source)))
        return Marked(text, tuple(runs))

    def __iter__(self) -> Iterator[str]:
        return (self._cut(i, i + 1) for i in range(len(self)))

    def __add__(self, other: str) -> Marked:
        if not isinstance(other, str) or hasattr(other, "__html__"):
            return NotImplemented  # HTML escapes what it is joined to
        return concat((self, other))

    def __radd__(self, other: str) -> Marked:
        if not isinstance(other, str):
            return NotImplemented
        return concat((other, self))

    def __mul__(self, count: SupportsIndex) -> Marked:
        text = str.__mul__(self, count)
        if len(text) == len(self):
            return self
        if self._origin is not None:
            return Marked.whole(text, self._origin)
        if not self._pieces:
            return Marked(text)
        return concat([self] * operator.index(count))

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> str:
        text = str.__mod__(self, values)
        arguments = iter(values if isinstance(values, tuple) else (values,))
        parts: list[str] = []
        at = 0
        for found in _CONVERSION.finditer(self):
            parts.append(self._cut(at, found.start()))
            value = "%" if found[0] == "%%" else next(arguments, "")
            if found[0] not in ("%s", "%d", "%%") or not isinstance(value, (str, int, float)):
                return text  # flags, widths, mappings and containers
            parts.append(str(value))
            at = found.end()
        parts.append(self._cut(at, len(self)))
        marked = concat(parts)
        return marked if marked == text else text

    def join(self, values: Iterable[str]) -> Marked:
        parts: list[str] = []
        for value in values:
            if parts and self:
                parts.append(self)
            parts.append(str(value) if isinstance(value, str) else value)
        return concat(parts)

    def strip(self, chars: str | None = None) -> Marked:
        size = len(str.strip(self, chars))
        if size == len(self):
            return self
        start = len(self) - len(str.lstrip(self, chars))
        return self._cut(start, start + size) if size else self._nothing()

    def lstrip(self, chars: str | None = None) -> Marked:
        start = len(self) - len(str.lstrip(self, chars))
        return self._cut(start, len(self)) if start < len(self) else self._nothing()

    def rstrip(self, chars: str | None = None) -> Marked:
        end = len(str.rstrip(self, chars))
        return self._cut(0, end) if end else self._nothing()

    def _nothing(self) -> Marked:
        """What is left of a text that is white space throughout: its first field's place."""
        for run in self._runs:
            if not run.origin.literal:
                return Marked.whole("", run.origin, run.source)
        return Marked("")

    def removeprefix(self, prefix: str) -> Marked:
        return self._cut(len(prefix) if str.startswith(self, prefix) else 0, len(self))

    def removesuffix(self, suffix: str) -> Marked:
        return self._cut(0, len(self) - len(suffix) if suffix and str.endswith(self, suffix) else len(self))

    def _locate(self, pieces: Iterable[str]) -> list[Marked]:
        """Cut out `pieces`, which stand in this text one after another."""
        found = []
        at = 0
        for piece in pieces:
            at = str.index(self, piece, at)
            found.append(self._cut(at, at + len(piece)))
            at += len(piece)
        return found

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._separated(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._separated(str.rsplit(self, sep, maxsplit), sep)

    def _separated(self, pieces: list[str], sep: str | None) -> list[str]:
        if sep is None:
            return list(self._locate(pieces))
        found: list[str] = []
        at = 0
        for piece in pieces:
            found.append(self._cut(at, at + len(piece)))
            at += len(piece) + len(sep)
        return found

    def splitlines(self, keepends: bool = False) -> list[str]:
        found: list[str] = []
        at = 0
        for line, kept in zip(str.splitlines(self), str.splitlines(self, True), strict=True):
            found.append(self._cut(at, at + len(kept if keepends else line)))
            at += len(kept)
        return found

    def partition(self, sep: str) -> tuple[str, str, str]:
        head, middle, _ = str.partition(self, sep)
        return self._three(len(head), len(middle))

    def rpartition(self, sep: str) -> tuple[str, str, str]:
        head, middle, _ = str.rpartition(self, sep)
        return self._three(len(head), len(middle))

    def _three(self, head: int, middle: int) -> tuple[str, str, str]:
        return self._cut(0, head), self._cut(head, head + middle), self._cut(head + middle, len(self))

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> str:
        limit = operator.index(count)
        if not old:
            return str.replace(self, old, new, limit)
        parts: list[str] = []
        at = 0
        while limit != 0 and (found := str.find(self, old, at)) >= 0:
            parts.append(self._cut(at, found))
            parts.append(str(new))
            at = found + len(old)
            limit -= 1
        if not parts:
            return self
        parts.append(self._cut(at, len(self)))
        return concat(parts)

    def _recased(self, text: str, change: Callable[[str], str] | None = None) -> str:
        """`text`, of which each character was made of one here, or of a run of them by `change`."""
        if text == self:
            return self
        runs: list[Run] = []
        at = end = 0
        for run in self._runs:
            # No character becomes nothing: texts of one length go character by character.
            if len(text) == len(self):
                start, end = run.start, run.end
            elif change is not None:
                start = end + len(change(str.__getitem__(self, slice(at, run.start))))
                end = start + len(change(str.__getitem__(self, slice(run.start, run.end))))
                at = run.end
            else:
                return text
            runs.append(_new(Run, (start, end, run.origin, -1)))
        return Marked(text, tuple(runs))

    def lower(self) -> str:
        return self._recased(str.lower(self), str.lower)

    def upper(self) -> str:
        return self._recased(str.upper(self), str.upper)

    def title(self) -> str:
        return self._recased(str.title(self))

    def capitalize(self) -> str:
        return self._recased(str.capitalize(self))

    def swapcase(self) -> str:
        return self._recased(str.swapcase(self), str.swapcase)

    def casefold(self) -> str:
        return self._recased(str.casefold(self), str.casefold)

    def _padded(self, size: int, left: int, fill: str) -> Marked:
        padding = Marked.whole(fill, NOWHERE) if fill is _SPACE else str(fill)
        return concat((padding * left, self, padding * (size - len(self) - left)))

    def center(self, width: SupportsIndex, fillchar: str = _SPACE) -> Marked:
        size = len(str.center(self, width, fillchar))
        left = size - len(self)
        # CPython puts the odd pad on the left exactly when both the padding and the width are odd.
        return self._padded(size, left // 2 + (left & operator.index(width) & 1), fillchar)

    def ljust(self, width: SupportsIndex, fillchar: str = _SPACE) -> Marked:
        return self._padded(len(str.ljust(self, width, fillchar)), 0, fillchar)

    def rjust(self, width: SupportsIndex, fillchar: str = _SPACE) -> Marked:
        size = len(str.rjust(self, width, fillchar))
        return self._padded(size, size - len(self), fillchar)

    def expandtabs(self, tabsize: SupportsIndex = 8) -> str:
        text = str.expandtabs(self, tabsize)
        return self if text == self else text


def _steps_inside(offsets: range, bound: int) -> int:
    """How many of `offsets`, from the first on, are below `bound`; where they run backwards, not below it."""
    away = bound - offsets.start
    steps = -(-away // offsets.step) if offsets.step > 0 else -away // -offsets.step + 1
    return min(max(steps, 0), len(offsets))


def concat(parts: Iterable[str]) -> Marked:
    """Join `parts`, some of them marked, into one marked text."""
    parts = tuple(parts)
    if len(parts) == 1 and type(parts[0]) is Marked:
        return parts[0]
    runs: list[Run] = []
    at = 0
    for part in parts:
        if type(part) is Marked:
            if part._origin is not None:
                begin = at
                if runs and part._origin is runs[-1][2] and part._origin.literal and runs[-1][1] == at:
                    begin = runs.pop()[0]  # the template's own text goes on
                runs.append(_new(Run, (begin, at + len(part), part._origin, part._source)))
            elif at:
                for start, end, origin, source in part._pieces:
                    runs.append(_new(Run, (start + at, end + at, origin, source)))
            else:
                runs.extend(part._pieces)
        at += len(part)
    text = _new_string(Marked, "".join(parts))
    if len(runs) == 1 and runs[0].end - runs[0].start == at:
        _, _, text._origin, text._source = runs[0]
    else:
        text._origin = None
        text._pieces = tuple(runs)
    return text


def runs_of(text: str) -> Runs:
    """The runs of a text, none for an ordinary string."""
    return text._runs if type(text) is Marked else ()
