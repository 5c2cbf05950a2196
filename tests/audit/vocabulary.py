"""Nonsense words that occur in no template, one for each field of a conversation, so that fields can be searched."""

from __future__ import annotations

import re
from typing import Final

WORD: Final = re.compile(r"zq[a-pr-y]{7}")
"""A word; none can begin inside another, whatever stands around it."""

_CONSONANTS: Final = "bdfgklmnprstvw"
_VOWELS: Final = "aeiou"
_COUNT: Final = (len(_CONSONANTS) * len(_VOWELS)) ** 3 * len(_CONSONANTS)
# A stride prime to the number of words, so that neighbours differ in more than one letter.
_STRIDE: Final = 1_000_003
_NEXT: Final = str.maketrans("abcdefghijklmnoprstuvwxy", "bcdefghijklmnoprstuvwxya")


class Words:
    """Hands out words in order; a conversation built with a fresh one is the same every time."""

    def __init__(self) -> None:
        self._given = 0

    def one(self) -> str:
        """A word not handed out before, of nine letters."""
        self._given += 1
        number = self._given * _STRIDE % _COUNT
        letters = []
        for alphabet in (_CONSONANTS, _VOWELS) * 3 + (_CONSONANTS,):
            number, digit = divmod(number, len(alphabet))
            letters.append(alphabet[digit])
        return "zq" + "".join(letters)

    def text(self, count: int = 3) -> str:
        """A sentence of `count` new words."""
        return " ".join(self.one() for _ in range(count))


def words_in(text: str) -> list[str]:
    """The words that stand in a text, in order."""
    return WORD.findall(text)


def turned(text: str) -> str:
    """A text of the same length with other letters in our words; in all of it, if it has none of them.

    Control tokens that the text quotes stay as they are, so that a template goes the same way.
    """
    if WORD.search(text):
        return WORD.sub(lambda found: "zq" + found[0][2:].translate(_NEXT), text)
    return text.translate(_NEXT)
