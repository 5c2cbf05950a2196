"""What a request asks the model to continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from planner import Candidate
from runtime.attachment import MediaChunk
from runtime.prefix import Tokens


def _nowhere(token: int) -> str | None:
    return None


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids and what is known about them.

    `candidates`: offsets where a state may be saved. `tools`: identifies the tools it was rendered with, None without.
    `where` names the message and field that a token comes from, where that is known. `media`, ascending: the tokens
    that stand for media, which are no ids of the vocabulary.
    """

    tokens: Tokens = field(repr=False)
    candidates: tuple[Candidate, ...] = field(repr=False, default=())
    tools: str | None = None
    where: Callable[[int], str | None] = field(repr=False, default=_nowhere)
    media: tuple[MediaChunk, ...] = field(repr=False, default=())

    def media_from(self, token: int) -> MediaChunk | None:
        """The first media that are not over before `token`."""
        return next((chunk for chunk in self.media if chunk.end > token), None)

    def whole(self, length: int) -> int:
        """The most of the first `length` tokens that do not end inside media."""
        chunk = self.media_from(length)
        return length if chunk is None else min(length, chunk.begin)
