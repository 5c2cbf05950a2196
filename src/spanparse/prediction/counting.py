"""Tokens that two prompts share, from the token map of one of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, final

from spanparse.spans import Piece
from spanparse.tokens.drift import common
from spanparse.tokens.encoding import encode

if TYPE_CHECKING:
    from spanparse.tokens import TokenMap

_AHEAD = 256
"""Characters behind the divergence that are tokenised with it: far more than a token or a word looks ahead."""


@final
class TokenCounter:
    """Counts kept tokens of one prompt; `tokens` is its map, `template` the source of what rendered it.

    Prompts are compared as they are encoded, media being placeholders, and counted in the map that has media in it.
    """

    def __init__(self, tokens: TokenMap, template: str) -> None:
        self._tokens = tokens
        self._template = template

    @property
    def count(self) -> int:
        """The length of the prompt in tokens."""
        return self._tokens.count

    def kept(self, following: str, kept: int) -> int:
        """How many leading tokens the prompts share, whose texts share `kept` characters.

        Only what the encodings do not share is tokenised again, up to a little behind the divergence; what follows that
        counts as the template's own text.
        """
        known = self._tokens.foundation.encoding
        if kept == len(known.text) == len(following):
            return self.count
        callers = [Piece(piece.start, min(piece.end, kept)) for piece in known.caller_text if piece.start < kept]
        window = encode(
            following[: kept + _AHEAD],
            callers,
            known.backend,
            template=self._template,
            trust_content=known.trust_content,
            previous=known,
        )
        begin = bisect_left(known.offsets, window.shared)
        shared = begin + common(known.ids, begin, window.ids, begin)
        # Equal ids behind the divergence are no shared text.
        shared = min(shared, bisect_left(known.offsets, kept, lo=known.bos_added))
        if self._tokens.ids is known.ids:
            return shared
        if shared == len(known.ids):
            return self.count
        return bisect_left(self._tokens.offsets, known.offsets[shared], lo=known.bos_added)
