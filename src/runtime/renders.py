"""Conversations that were rendered before: when one comes back grown, most of its tokens are known."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from threading import Lock
from typing import Any, NamedTuple, final

from spanparse.tokens import TokenMap


@final
class Rendered(NamedTuple):
    """A conversation's tokens. `setting`: all they depend on besides `messages`, a digest of each."""

    setting: Hashable
    messages: tuple[int, ...]
    tokens: TokenMap

    def shared(self, messages: Sequence[int]) -> int:
        """How many messages a conversation has in common with this one."""
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.messages, messages, strict=False)))


def digests(messages: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    """A number for each message that is the same for the same message in this process; callers may change it later."""
    return tuple(hash(repr(message)) for message in messages)


@final
class Renders:
    """The latest renderings, of at most `most_tokens` tokens together, and of one conversation always.

    For several threads.
    """

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens
        self._lock = Lock()
        self._kept: list[Rendered] = []

    @contextmanager
    def nearest(self, setting: Hashable, messages: Sequence[int]) -> Iterator[Rendered | None]:
        """The rendering that shares most messages with a conversation, the latest of several; None if none does.

        Inside the block no other thread gets it.
        """
        best = self._take(setting, messages)
        try:
            yield best
        finally:
            if best is not None:
                self.put(best)

    def _take(self, setting: Hashable, messages: Sequence[int]) -> Rendered | None:
        with self._lock:
            alike = [rendered for rendered in reversed(self._kept) if rendered.setting == setting]
            best = max(alike, key=lambda rendered: rendered.shared(messages), default=None)
            if best is None or not best.shared(messages):
                return None
            self._kept = [rendered for rendered in self._kept if rendered is not best]
            return best

    def put(self, rendered: Rendered) -> None:
        """Keep a rendering, and let go of those that are the beginning of it and of the oldest beyond the limit."""
        with self._lock:
            kept = [old for old in self._kept if not _continues(rendered, old)]
            room = self._most_tokens - rendered.tokens.count
            while kept and sum(old.tokens.count for old in kept) > room:
                kept.pop(0)
            self._kept = [*kept, rendered]


def _continues(rendered: Rendered, old: Rendered) -> bool:
    return rendered.setting == old.setting and rendered.shared(old.messages) == len(old.messages)
