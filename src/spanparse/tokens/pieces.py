"""What each token of a vocabulary spells, and the character offsets that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import sub
from typing import TypeVar

_SPACE = b" "


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
        self._inside: set[int] = set()

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
        spelled = b"".join(pieces)
        expected = text.encode()
        if spelled != expected and spelled != _SPACE + expected:
            expected = text.replace("▁", " ").encode()
            if spelled != expected and spelled != _SPACE + expected:
                return None
        dummy = len(spelled) - len(expected)
        # In ASCII a character is a byte, and adding up lengths takes half the time.
        ascii = spelled.isascii()
        begun = map(len, pieces) if ascii else map(self._begun.__getitem__, ids)
        offsets = list(accumulate(begun, initial=base - dummy))
        if not ascii and not self._inside.isdisjoint(ids):
            offsets = list(map(sub, offsets, map(self._inside.__contains__, ids)))
        else:
            offsets.pop()
        offsets[0] = base
        return offsets

    def _count_begun(self, id: int) -> int:
        """The number of code points that begin in the token; remembers the tokens that begin inside one."""
        begins = [byte & 0xC0 != 0x80 for byte in self._bytes[id]]
        if begins and not begins[0]:
            self._inside.add(id)
        return sum(begins)
