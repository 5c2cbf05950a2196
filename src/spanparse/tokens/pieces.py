"""What each token of a vocabulary spells, and the character offsets that follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

_SPACE = b" "

# A byte that UTF-8 never has, and where it stands before the rest of a code point.
_NEVER = b"\xff"
_CONTINUED = re.compile(rb"\xff[\x80-\xbf]")

_Value = TypeVar("_Value")


class _Memo(dict[int, _Value]):
    """A dict that asks `read` for what it does not hold: lookups of known ids stay in C."""

    def __init__(self, read: Callable[[int], _Value]) -> None:
        self._read = read

    def __missing__(self, key: int) -> _Value:
        value = self[key] = self._read(key)
        return value


class Pieces:
    """The bytes of each token id, read once each from the vocabulary."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._bytes = _Memo(read)
        self._begun = _Memo(self._count_begun)

    def __getitem__(self, id: int) -> bytes:
        return self._bytes[id]

    def spell(self, ids: Sequence[int]) -> bytes:
        """The concatenated pieces of `ids`."""
        return b"".join(map(self._bytes.__getitem__, ids))

    def offsets(self, ids: Sequence[int], text: str, base: int = 0) -> list[int] | None:
        """The start of each token in characters, counted from `base`; None if the pieces do not spell `text`.

        A dummy space before the text and `▁` for a space, both SentencePiece's way, count as spelling it: neither moves
        a character. A token that begins inside a code point has the offset of that code point.
        """
        if not ids:
            return None if text else []
        pieces = list(map(self._bytes.__getitem__, ids))
        spelled, expected = b"".join(pieces), text.encode()
        if spelled != expected and spelled != _SPACE + expected:
            expected = text.replace("▁", " ").encode()
            if spelled != expected and spelled != _SPACE + expected:
                return None
        dummy = len(spelled) - len(expected)
        if len(expected) == len(text):
            # A character is a byte, and adding up lengths takes half the time.
            offsets = list(accumulate(map(len, pieces), initial=base - dummy))
        else:
            offsets = list(accumulate(map(self._begun.__getitem__, ids), initial=base - dummy))
            for index in _begin_inside(pieces):
                offsets[index] -= 1
        offsets.pop()
        offsets[0] = base
        return offsets

    def _count_begun(self, id: int) -> int:
        """The number of code points that begin in the token."""
        return sum(byte & 0xC0 != 0x80 for byte in self._bytes[id])


def _begin_inside(pieces: Sequence[bytes]) -> Iterator[int]:
    """The indices of the pieces, which spell valid UTF-8, that begin inside a code point.

    They are few, and to look at each would take as long as all the rest.
    """
    parted = _NEVER.join(pieces)
    index = at = 0
    for match in _CONTINUED.finditer(parted):
        index += parted.count(_NEVER, at, match.end())
        at = match.end()
        yield index
