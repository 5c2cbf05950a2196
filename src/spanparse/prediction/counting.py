"""Tokens that two prompts share, from the token map of one of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import takewhile
from typing import TYPE_CHECKING, Any, final

from spanparse.spans import Piece, Rendering
from spanparse.tokens import token_map
from spanparse.tokens.encoding import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spanparse.tokens import Backend, TokenMap

_AHEAD = 256
"""Characters behind the divergence that are tokenised with it: far more than a token or a word looks ahead."""


@final
class TokenCounter:
    """Counts kept tokens of one prompt; `tokens` is the map that `backend` made of its rendering.

    Where that has media in it, they are left as placeholders for the comparison, and counted in the end.
    """

    def __init__(
        self, rendering: Rendering, tokens: TokenMap, backend: Backend, *, template: str, trust_content: bool
    ) -> None:
        self._filled = tokens
        if tokens.media:
            tokens = token_map(rendering, backend, template=template, trust_content=trust_content)
        self._text = rendering.text
        self._caller_text = rendering.caller_text
        self._caller_starts = [piece.start for piece in rendering.caller_text]
        self._tokens = tokens
        self._backend = backend
        self._template = template
        self._trust_content = trust_content

    @property
    def count(self) -> int:
        """The length of the prompt in tokens."""
        return self._filled.count

    def kept(self, following: str, kept: int) -> int:
        """How many leading tokens the prompts share, whose texts share `kept` characters.

        Only the stretch around the divergence is tokenised again, from the last barrier before it that is safe; what
        follows the divergence counts as the template's own text.
        """
        shared = self._kept(following, kept)
        if self._filled is self._tokens:
            return shared
        if shared == self._tokens.count:
            return self.count
        return bisect_left(self._filled.offsets, self._tokens.offsets[shared], lo=self._tokens.bos_added)

    def _kept(self, following: str, kept: int) -> int:
        if kept >= len(self._text) and len(following) == kept:
            return self._tokens.count
        start = self._safe_start(kept)
        begin = self._tokens.offsets[start] if start > self._tokens.bos_added else 0
        between = self._callers_between(begin, kept)
        callers = [Piece(max(p.start, begin) - begin, min(p.end, kept) - begin) for p in between]
        options: dict[str, Any] = {"template": self._template, "trust_content": self._trust_content}
        window = encode(following[begin : kept + _AHEAD], callers, self._backend, **options)
        pairs = zip(self._tokens.ids[start:], window.ids[window.bos_added :], strict=False)
        shared = start + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        # Equal ids behind the divergence are no shared text.
        return min(shared, bisect_left(self._tokens.offsets, kept, lo=self._tokens.bos_added))

    def _safe_start(self, kept: int) -> int:
        """The index of a token that begins before `kept` and that tokenisation never looks across."""
        tokens = self._tokens
        safe = tokens.bos_added
        for barrier in tokens.barriers:
            # A barrier is safe for what a template writes there. That is what stands there only if it is kept as well.
            following = barrier.token + 1
            end = tokens.offsets[following] if following < tokens.count else len(self._text)
            if barrier.offset < kept and end <= kept and self._is_cut(barrier.token):
                safe = max(safe, barrier.token)
        # Behind a control token the window begins with it, since what follows it is tokenised otherwise than a text's
        # beginning.
        if safe > tokens.bos_added and tokens.ids[safe - 1] in self._backend.added.by_id:
            safe -= 1
        return safe

    def _is_cut(self, token: int) -> bool:
        """Whether a control token ends or begins there; what begins inside text may begin otherwise by itself."""
        added = self._backend.added.by_id
        return any(id in added for id in self._tokens.ids[max(0, token - 1) : token + 1])

    def _callers_between(self, begin: int, end: int) -> Sequence[Piece]:
        first = max(0, bisect_right(self._caller_starts, begin) - 1)
        last = bisect_left(self._caller_starts, end)
        return [piece for piece in self._caller_text[first:last] if piece.end > begin]
