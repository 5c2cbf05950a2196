"""What methods and filters may make of their operands: the bounds that are checked before one runs.

A cost is a function of the render's `Operations` and of what the method or filter is given; it raises `LimitReached`.
What chat templates use has a cost of its own. Everything else that Python and Jinja offer (`int.to_bytes`,
`str.maketrans`, `urlize`, `striptags`, …) is `odd`: it runs on small operands only, since nobody has worked out what it
does with large ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from markupsafe import Markup

from spanparse.bounds.limits import BIG, RUN_BYTES, SMALL, LimitReached
from spanparse.bounds.operations import ESCAPE_GROWTH, REPR_GROWTH, Operations

Cost = Callable[..., object]

MOST_ODD: Final = 10_000
"""Characters, items or amount that an odd operation accepts."""

_ODD: Final = "an operation that chat templates have no use for"
_MOST_ODD_PRODUCT: Final = 1_000_000
_ODD_CHARACTER: Final = 1_000
_MOST_TEXTS: Final = 1_000
CASE_GROWTH: Final = 3
"""Characters that a change of case makes of one at most."""

MARKED_RUN: Final = 2_500
"""Nanoseconds that a run of a marked text takes to be made."""

# Characters that a path of names may have, and nanoseconds that one of them takes to be looked up.
_LONGEST_PATH: Final = 100
_LOOKED_UP: Final = 1_000
_CASED_CHARACTER: Final = 10
_TRANSLATED_CHARACTER: Final = 150
_TITLED_BYTES: Final = 160
_TITLED_PIECE: Final = 500
_FEW_JOINED: Final = 1_000
_JOINED_PIECE: Final = 1_000
_FEW_STRIPPED: Final = 64
_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_WORD_ENDS: Final = "-({[<" + "".join(filter(str.isspace, map(chr, range(0x3001))))
# The others put longer texts in the place of what an encoding has no bytes for.
_SHORT_ERRORS: Final = ("strict", "ignore", "replace")
_TEXT_ENCODINGS: Final = frozenset({"utf8", "ascii", "latin1", "utf16", "utf32"})


def free(operations: Operations, *operands: object, **options: object) -> None:
    """Nothing to bound."""


def odd(operations: Operations, *operands: Any, **options: Any) -> None:
    """Refuse all but small operands."""
    size = 0
    product = 1
    for operand in (*operands, *options.values()):
        if isinstance(operand, int):
            product *= max(1, abs(operand))
            if abs(operand) > MOST_ODD or product > _MOST_ODD_PRODUCT:
                raise LimitReached(f"gives an amount above {MOST_ODD:,} to {_ODD}")
        size += operations.weigh(operand).characters
    if size > MOST_ODD:
        raise LimitReached(f"gives more than {MOST_ODD:,} characters to {_ODD}")
    operations.meter.charge(_ODD_CHARACTER * size)


def printed(operations: Operations, value: Any, *operands: object, **options: object) -> None:
    """The value becomes text, if it is none, and may be cased or escaped."""
    if not isinstance(value, str):
        operations.meter.expect(operations.weigh(value).characters, REPR_GROWTH)
    else:
        _cased(operations, value)


# --- texts ----------------------------------------------------------------------------------------


def _scan(operations: Operations, text: Any, *operands: object, **options: object) -> None:
    """The text or container is gone through; the result is no longer than it."""
    operations.meter.charge(len(text))


def _sought(operations: Operations, text: Any, sought: Any = None, *operands: object) -> None:
    """Another text is looked for, or one of a tuple of them."""
    if isinstance(sought, tuple):
        if len(sought) > _MOST_TEXTS:
            raise LimitReached(f"looks for one of more than {_MOST_TEXTS:,} texts")
        for each in sought:
            operations.looked_for(text, each)
    else:
        operations.looked_for(text, sought)


def scanned_back(operations: Operations, text: str, sought: Any = None, *operands: object) -> None:
    """Python looks for the last place of a text by trying one after another."""
    if isinstance(sought, str):
        operations.meter.afford(len(text), min(len(sought), len(text)))


def stripped(operations: Operations, text: str, characters: Any = None) -> None:
    """Each character at the ends is looked for among `characters`."""
    _scan(operations, text)
    if isinstance(characters, str) and len(characters) > _FEW_STRIPPED and len(text) > SMALL:
        operations.meter.afford(len(text), len(characters) >> 4)


def _cased(operations: Operations, text: str, *operands: object) -> None:
    if len(text) <= BIG:
        operations.meter.charge(len(text) * _CASED_CHARACTER)
    else:
        operations.meter.expect(len(text), CASE_GROWTH)
        operations.meter.afford(len(text), _CASED_CHARACTER)
        operations.meter.afford(runs(text), MARKED_RUN)


def titled(operations: Operations, text: str) -> None:
    """The filter `title`, which cuts the text into words."""
    if len(text) > BIG:
        operations.meter.afford(len(text), len(_WORD_ENDS))
        ends = sum(str.count(text, character) for character in _WORD_ENDS)
        operations.meter.expect_items(2 * ends, _TITLED_BYTES)
        operations.meter.afford(2 * ends, _TITLED_PIECE)


def escaped(operations: Operations, value: Any) -> None:
    """Characters that are special in HTML are replaced."""
    printed(operations, value)
    if isinstance(value, str) and type(value) is not str and len(value) > BIG:
        special = sum(str.count(value, character) for character in "&<>'\"")
        operations.meter.expect_items(min(2 * special, len(value)) + runs(value), RUN_BYTES)
        operations.meter.afford(2 * special + runs(value), MARKED_RUN)


def _padded(operations: Operations, text: str, width: Any, *operands: object) -> None:
    operations.meter.expect(max(len(text), operator.index(width)))


def _tabbed(operations: Operations, text: str, tabsize: Any = 8) -> None:
    operations.meter.expect(len(text) + str.count(text, "\t") * max(0, operator.index(tabsize)))


def _split(operations: Operations, text: str, sep: Any = None, maxsplit: Any = -1) -> None:
    operations.looked_for(text, sep)
    if len(text) <= BIG:
        return
    limit = operator.index(maxsplit)
    count = str.count(text, sep) if isinstance(sep, str) and sep else len(text) // 2
    pieces(operations, text, min(count, limit) if limit >= 0 else count)


def _lines(operations: Operations, text: str, keepends: object = False) -> None:
    if len(text) > BIG:
        pieces(operations, text, lines(text))


def _split_back(operations: Operations, text: str, sep: Any = None, maxsplit: Any = -1) -> None:
    scanned_back(operations, text, sep)
    _split(operations, text, sep, maxsplit)


def lines(text: str) -> int:
    """How many lines a text has at most."""
    return sum(str.count(text, end) for end in _LINE_ENDS) + 1


def replaced(operations: Operations, text: str, old: Any, new: Any, count: Any = -1) -> None:
    """All or the first `count` of the places where `old` stands become `new`."""
    if not isinstance(old, str) or not isinstance(new, str):
        return  # a TypeError, which is the operation's to raise
    operations.looked_for(text, old)
    limit = operator.index(count)
    found = len(text) // len(old) if old else len(text) + 1
    if found * (1 + len(new)) > BIG:
        found = str.count(text, old)
        found = min(found, limit) if limit >= 0 else found
        pieces(operations, text, found)
        operations.meter.expect(len(text) + found * max(0, len(new) - len(old)), _growth(text))


def joined(operations: Operations, separator: str, values: Any) -> None:
    """`values`, a container, become one text with `separator` between them."""
    if isinstance(values, str):
        pieces(operations, values, len(values))
    texts = values if set(map(type, values)) == {str} else [value for value in values if isinstance(value, str)]
    characters = sum(map(len, texts))
    if len(values) > _FEW_JOINED:
        kept = len(values) if texts is values else len(values) + sum(map(runs, texts))
        operations.meter.expect_items(2 * kept, RUN_BYTES)
        operations.meter.afford(kept, _JOINED_PIECE)
    operations.meter.expect(characters + len(values) * len(separator), _growth(separator))


def _translated(operations: Operations, text: str, table: Any) -> None:
    if isinstance(table, (dict, list, tuple)):
        values = table.values() if isinstance(table, dict) else table
        operations.meter.charge(len(table) << 4)
        longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    else:  # a text gives its characters, and nobody knows what else might give
        odd(operations, table)
        longest = MOST_ODD
    operations.meter.expect(len(text) * max(1, longest))
    operations.meter.afford(len(text), _TRANSLATED_CHARACTER)


def _encoded(operations: Operations, text: str, encoding: Any = "utf-8", errors: object = "strict") -> None:
    if not isinstance(encoding, str) or not isinstance(errors, str):
        return  # a TypeError
    # Some of the others take the square of a text's length.
    if encoding[:16].lower().replace("-", "").replace("_", "") not in _TEXT_ENCODINGS or len(encoding) > SMALL:
        raise LimitReached(f"encodes in another way than {', '.join(sorted(_TEXT_ENCODINGS))}")
    if errors in _SHORT_ERRORS:
        operations.meter.expect(len(text), 2)
    else:
        odd(operations, text)


def _decoded(operations: Operations, data: bytes, encoding: Any = "utf-8", errors: Any = "strict") -> None:
    _encoded(operations, "", encoding, errors)
    operations.meter.expect(len(data))


def pieces(operations: Operations, text: str, count: int) -> None:
    """The text becomes so many pieces."""
    operations.pieces(text, count)


def runs(text: str) -> int:
    """How many runs a marked text of several origins has; 0 for any other."""
    return len(getattr(text, "_pieces", ()))


def _growth(text: str) -> int:
    return ESCAPE_GROWTH if isinstance(text, Markup) else 1


def looked_up(operations: Operations, values: Any, attribute: object = None, *operands: object) -> None:
    """An attribute of each value is looked up, by a path of names."""
    if isinstance(attribute, str):
        if len(attribute) > _LONGEST_PATH:
            raise LimitReached(f"looks up a path of more than {_LONGEST_PATH} characters")
        if hasattr(values, "__len__"):
            operations.meter.afford(len(values), _LOOKED_UP * (attribute.count(".") + attribute.count(",") + 1))


STRING_METHODS: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(("removeprefix", "removesuffix", "partition"), _sought),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), stripped),
    **dict.fromkeys(("startswith", "endswith", "find", "index", "count"), _sought),
    **dict.fromkeys(("rfind", "rindex", "rpartition"), scanned_back),
    **dict.fromkeys(("isalpha", "isdigit", "isnumeric", "isdecimal", "isalnum", "isspace", "isascii"), _scan),
    **dict.fromkeys(("isupper", "islower", "istitle", "isidentifier", "isprintable"), _scan),
    **dict.fromkeys(("lower", "upper", "title", "capitalize", "swapcase", "casefold"), _cased),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _padded),
    "expandtabs": _tabbed,
    "split": _split,
    "rsplit": _split_back,
    "splitlines": _lines,
    "replace": replaced,
    "join": joined,
    "translate": _translated,
    "encode": _encoded,
}
"""Costs of the methods of `str`, given the text and the method's arguments."""


def _search(operations: Operations, values: Any, value: Any, *operands: object) -> None:
    operations.searched_for(value, values)


def _lookup(operations: Operations, values: object, *operands: object) -> None:
    for operand in operands:
        operations.walk(operand)


CONTAINER_METHODS: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(("items", "keys", "values"), free),
    "copy": _scan,
    "get": _lookup,
    "count": _search,
    "index": _search,
}
"""Costs of the methods of `list`, `tuple` and `dict`."""

BYTES_METHODS: Final[Mapping[str, Cost]] = {"decode": _decoded}
"""Costs of the methods of `bytes`."""
