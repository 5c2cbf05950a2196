"""A tokeniser that finds the placeholders of media as if they were tokens of its own."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Final, cast, final

from spanparse.tokens.added import AddedToken, AddedTokens
from spanparse.tokens.base import Backend
from spanparse.tokens.pieces import Pieces
from spanparse.tokens.words import WordEnds

HOLE: Final = -1
"""The id of the first placeholder; the others follow downwards. No vocabulary has negative ids."""


@final
class HoledBackend:
    """`backend` with an added token for each text of `placeholders`.

    Text after one begins anew, dummy space and all, as each stretch of text between media does in llama.cpp.
    """

    def __init__(self, backend: Backend, placeholders: Iterable[str]) -> None:
        self._backend = backend
        self._ids = {text: HOLE - number for number, text in enumerate(sorted(placeholders))}
        self._texts = {id: text for text, id in self._ids.items()}
        self._pattern = re.compile("|".join(map(re.escape, sorted(self._ids, key=len, reverse=True))))
        self.name = backend.name
        self.bos = backend.bos
        self.add_bos = backend.add_bos
        self.eos = backend.eos
        holes = (AddedToken(text, id, special=True) for text, id in self._ids.items())
        self.added = AddedTokens([*backend.added.values(), *holes])
        self.pieces = Pieces(self._piece)

    @property
    def word_ends(self) -> WordEnds | None:
        return self._backend.word_ends

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        if not special:
            return self._backend.encode(text, special=False, prefix=prefix)
        ids: list[int] = []
        at = 0
        for match in self._pattern.finditer(text):
            if match.start() > at:
                ids += self._backend.encode(text[at : match.start()], special=True, prefix=prefix)
            ids.append(self._ids[match.group()])
            at, prefix = match.end(), True
        if at < len(text) or not ids:
            ids += self._backend.encode(text[at:], special=True, prefix=prefix)
        return ids

    def encode_all(
        self, texts: Sequence[str], starts: Sequence[int], control: frozenset[int]
    ) -> Sequence[tuple[list[int], list[int] | None]] | None:
        vocabulary = frozenset(id for id in control if id not in self._texts)
        return self._backend.encode_all(texts, starts, vocabulary)

    def ordinary(self, id: int) -> list[int]:
        """The ids of the text that a negative id stands for."""
        return self._backend.encode(self._texts[id], special=True)

    def align(self, text: str, *, prefix: bool = True) -> Sequence[int] | None:
        return self._backend.align(text, prefix=prefix)

    def _piece(self, id: int) -> bytes:
        text = self._texts.get(id)
        return self._backend.pieces[id] if text is None else text.encode()


def with_holes(backend: Backend, placeholders: frozenset[str]) -> HoledBackend:
    """The same backend for the same placeholders, as long as few others are asked for in between."""
    return _with_holes(cast(Hashable, backend), placeholders)


# A template shows its media in few ways, and a backend's added tokens may be thousands.
@lru_cache(maxsize=4)
def _with_holes(backend: Hashable, placeholders: frozenset[str]) -> HoledBackend:
    return HoledBackend(cast(Backend, backend), placeholders)
