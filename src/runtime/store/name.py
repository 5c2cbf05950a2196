"""The name of a stored state: whose it is, how many tokens it stands for, and which."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from runtime.prefix import Tokens, as_tokens

_PATTERN = re.compile(r"([0-9a-f]{32})-([1-9][0-9]{0,9})-([0-9a-f]{32})")


class Medium(NamedTuple):
    """An image or recording at tokens [begin, end) of a prompt.

    `id` names its content and the projector that reads it: what stands for media in a token list says neither.
    """

    begin: int
    end: int
    id: str


class Name(NamedTuple):
    """`identity` is that of model and context (`Identity.digest`), `key` that of the first `n_tokens` tokens."""

    identity: str
    n_tokens: int
    key: str

    def __str__(self) -> str:
        return f"{self.identity}-{self.n_tokens}-{self.key}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The name that `str` spells as `text`, None if it spells none so."""
        match = _PATTERN.fullmatch(text)
        return None if match is None else cls(match[1], int(match[2]), match[3])


def prefix_keys(tokens: Sequence[int] | Tokens, lengths: Iterable[int], media: Sequence[Medium] = ()) -> dict[int, str]:
    """For each of `lengths` what identifies that many leading tokens, media by their ids; the same on every machine.

    Lengths of 0, beyond the tokens and inside media are left out: no state stands for them. Reads the tokens once,
    however many lengths there are.
    """
    ids = as_tokens(tokens).astype("<i4", copy=False)
    keys: dict[int, str] = {}
    running, at = hashlib.blake2b(digest_size=16), 0
    for length in sorted({length for length in lengths if 0 < length <= ids.size}):
        if any(medium.begin < length < medium.end for medium in media):
            continue
        running.update(ids[at:length].data)
        at, whole = length, running.copy()
        for medium in media:
            if medium.end <= length:
                whole.update(repr(tuple(medium)).encode())
        keys[length] = whole.hexdigest()
    return keys
