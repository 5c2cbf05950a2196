"""What the token map asks of a tokeniser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spanparse.tokens.added import AddedTokens
from spanparse.tokens.pieces import Pieces
from spanparse.tokens.words import WordEnds


class Backend(Protocol):
    """A tokeniser. Nothing here changes it; all calls may be made from several threads.

    `name` names it in messages to the user. `bos` and `eos` are ids, None where the vocabulary has none. `add_bos`: a
    prompt must begin with `bos`.
    """

    @property
    def name(self) -> str: ...

    @property
    def bos(self) -> int | None: ...

    @property
    def add_bos(self) -> bool: ...

    @property
    def eos(self) -> int | None: ...

    @property
    def added(self) -> AddedTokens:
        """The tokens that are found by their text."""

    @property
    def pieces(self) -> Pieces:
        """The bytes of each token; for an added token its own text."""

    @property
    def word_ends(self) -> WordEnds | None:
        """Ends of words that the tokeniser never reaches across; None if none are known for certain."""

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        """The ids of `text`; neither BOS nor EOS is added.

        `special`: special tokens in the text are found, otherwise they are text; other added tokens are found always.
        `prefix`: the dummy space that SentencePiece vocabularies put before a text may be put; a backend that cannot
        leave it out puts it regardless, and has no `word_ends`.
        """

    def encode_all(
        self, texts: Sequence[str], starts: Sequence[int], control: frozenset[int]
    ) -> Sequence[tuple[list[int], list[int] | None]] | None:
        """The ids of each text, as `encode` gives them without special tokens, and the character at which each starts.

        Text i is not empty and begins at character `starts[i]`. No starts for a text if they cannot be proven by the
        bytes of the tokens, or if one of these is in `control`; None if this is no quicker than one after another.
        """

    def align(self, text: str, *, prefix: bool = True) -> Sequence[int] | None:
        """The start in characters of each token of encode(text, special=False), as the tokeniser itself tells it.

        Asked only where pieces do not spell the text because a normaliser changed it. None if it cannot tell.
        """
