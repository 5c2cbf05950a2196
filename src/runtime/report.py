"""What a request cost, what it could have cost, and why it cost more."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, final

from runtime.attachment import MediaChunk
from runtime.prefix import Shared

Reason = Literal[
    "no-common-prefix",
    "diverged",
    "state-missing",
    "evicted",
    "budget",
    "media",
    "template-changed",
    "cancelled",
    "restart",
]

Source = Literal["live", "ram", "disk", "redis"]
"""Where a restored state came from; live is what the memory still held."""

Phase = Literal["render", "tokenize", "plan", "restore", "prefill", "save", "decode"]


@dataclass(frozen=True, slots=True)
class Restored:
    """The state that a request continued from: the first `offset` tokens were not evaluated."""

    offset: int
    source: Source


@dataclass(frozen=True, slots=True)
class Refused:
    """A stored state of the first `offset` tokens that was not used, since it belongs to another model or context."""

    offset: int
    source: Source
    reason: str


@dataclass(frozen=True, slots=True)
class Excess:
    """Tokens evaluated beyond the ideal, for one reason."""

    tokens: int
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall-clock seconds of each phase."""

    render: float = 0.0
    tokenize: float = 0.0
    plan: float = 0.0
    restore: float = 0.0
    prefill: float = 0.0
    save: float = 0.0
    decode: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """One request's account; all counts in tokens unless they say otherwise.

    `ideal` is max(1, prompt length − longest common prefix with any earlier prompt of the engine). The excess adds up
    to max(0, evaluated − ideal). `breaks` counts batch boundaries forced inside the prompt, `saves` states taken,
    `bytes` what all checkpoints hold when the request ends. A prompt that is stored as a whole is not evaluated at all.
    `refused`: what the store has of the prompt and may not give.
    """

    prompt_tokens: int
    restored: Restored | None
    evaluated: int
    reused: int
    ideal: int
    excess: tuple[Excess, ...]
    breaks: int
    saves: int
    bytes: int
    seconds: Seconds
    refused: Refused | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, keys as promised in the documentation."""
        data = asdict(self)
        data["excess"] = [asdict(excess) for excess in self.excess]
        for name in ("restored", "refused"):
            if data[name] is not None:
                data[name]["from"] = data[name].pop("source")
        return data


@final
class Clock:
    """Adds up the wall-clock seconds of phases."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count the time inside the block, also when it raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def seconds(self) -> Seconds:
        """What has been counted so far."""
        return Seconds(**self._seconds)


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a request found when it came, all in tokens.

    `shared`: with earlier prompts. `start`: where evaluation began. `lost`: offsets of this prompt where a state was
    given up, refused or could not be used, and why. `foreign`: leading tokens that another process evaluated, so that
    no state inside them was ever saved here. `media`: those of the prompt.
    """

    prompt_tokens: int
    shared: Shared
    start: int
    lost: Mapping[int, Reason]
    media: Sequence[MediaChunk] = ()
    foreign: int = 0

    @property
    def ideal(self) -> int:
        """The fewest tokens any engine that never forgets would have evaluated."""
        return max(1, self.prompt_tokens - self.shared.prompted)

    def explain(self, evaluated: int, where: str | None = None) -> tuple[Excess, ...]:
        """Why `evaluated` tokens exceed the ideal, a reason for each stretch that was evaluated before.

        `where` names the message and field in which the prompt parts from all earlier ones. What a failed decode made
        to be evaluated again comes last.
        """
        unfinished = "an earlier request with this prefix has not finished its prefill"
        reason, detail = self._missing_state(where)
        inherited = self.foreign if reason == "state-missing" else 0
        stretches: tuple[tuple[int, tuple[Reason, str]], ...] = (
            (min(inherited, self.shared.evaluated), ("restart", f"{detail}, the state of {inherited} was inherited")),
            (self.shared.evaluated, (reason, detail)),
            (self.shared.prompted, ("cancelled", unfinished)),
            (self.start + evaluated, ("state-missing", "evaluated again after a decode that failed")),
        )
        left, begin = max(0, evaluated - self.ideal), self.start
        excess: list[Excess] = []
        for end, (reason, detail) in stretches:
            tokens = min(left, end - begin)
            if tokens > 0:
                excess += self._apart(begin, Excess(tokens, reason, detail))
                left, begin = left - tokens, end
        return tuple(excess)

    def _apart(self, begin: int, excess: Excess) -> Iterator[Excess]:
        """What was evaluated again from `begin` on, media apart from text if no state is to blame that was given up."""
        end = min(begin + excess.tokens, self.shared.evaluated)
        again = [chunk for chunk in self.media if begin <= chunk.begin and chunk.end <= end]
        if excess.reason != "state-missing" or not again:
            yield excess
            return
        encoded = sum(chunk.end - chunk.begin for chunk in again)
        names = ", ".join(dict.fromkeys(chunk.attachment.where for chunk in again))
        yield Excess(encoded, "media", f"{names} encoded again, no state lies inside media: {excess.detail}")
        if encoded < excess.tokens:
            yield replace(excess, tokens=excess.tokens - encoded)

    def _missing_state(self, where: str | None) -> tuple[Reason, str]:
        common = self.shared.evaluated
        reasons = {reason for offset, reason in self.lost.items() if self.start < offset <= common}
        reason: Reason = "evicted" if "evicted" in reasons else "budget" if "budget" in reasons else "state-missing"
        return reason, f"common {common}, nearest {self.start}" + (f", diverged at {where}" if where else "")
