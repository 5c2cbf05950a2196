"""What the store asks of a place where states are kept outside of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from runtime.llama import State
from runtime.report import Source
from runtime.store.identity import Identity
from runtime.store.name import Name
from runtime.store.record import Head, Record

Take = Callable[[int, int], State]
"""Gives a buffer of at least so many bytes for a state, with room for so many of logits. Raises `TierFull`."""


@dataclass(frozen=True, slots=True)
class TierStatus:
    """How a tier is doing.

    `entries` and `bytes` are what it holds within the budget `bytes_limit`, None if it cannot be asked. `problem` is
    why it does not take or give states at the moment, or why the last attempt failed; None if all is well.
    """

    tier: Source
    entries: int | None
    bytes: int | None
    bytes_limit: int
    problem: str | None

    def to_json(self) -> dict[str, Any]:
        """The status as plain data."""
        return asdict(self)


class Tier(Protocol):
    """States in the order of their last use, the least recent of which give way.

    At no time do they take more than `bytes_limit` bytes, what is being written included. Several processes may use
    one at once. A tier that fails raises within a bounded time and can be used again.
    """

    source: Source
    bytes_limit: int

    def names(self) -> Iterable[Name]:
        """The states that are there, also those of other identities. Raises `TierError`."""
        ...

    def put(self, record: Record, identity: Identity) -> None:
        """Keep `record`, unless it is there already with as many bytes; others may give way.

        When it returns, the record survives the process.
        Raises `TierFull` if it has no room, `TierError`. Nothing half-written is ever found.
        """
        ...

    def head(self, name: Name) -> Head:
        """What the record's head says. Raises `StateRefused` and `TierError`."""
        ...

    def load(self, name: Name, take: Take) -> Record:
        """The record, its state in a buffer from `take`.

        Raises `StateRefused` for one that is gone or damaged, which is then not offered any more; `TierError`, and what
        `take` raises.
        """
        ...

    def status(self) -> TierStatus:
        """How it is doing. Never raises."""
        ...

    def close(self) -> None:
        """Let go of what it holds open. Closing twice is fine."""
        ...
