"""How clients go on: at which kinds of places the next prompt of a conversation parts from its last, learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, final

Habit = Literal["end", "answer", "user", "rewrite", "message", "depth", "next", "anywhere", "distance"]
"""Where the next prompt parts. end: a few tokens before the last one's end, or there. answer: where the generation
prompt begins; user: the last user message; rewrite: what follows that. message: any message, the later the likelier.
depth: as many messages before the end as the last time. next: at the next message like the one where it parted the
last time, as where old tool results are dropped one after the other. anywhere, distance: anywhere in the prompt, evenly
or the denser the nearer to its end."""

_SHARES: Mapping[Habit, float] = {
    "end": 4.0,
    "answer": 5.0,
    "user": 2.0,
    "rewrite": 3.0,
    "message": 2.0,
    "depth": 1.0,
    "next": 1.0,
    "anywhere": 0.6,
    "distance": 0.8,
}
"""What is expected before anything is seen, as if so many had been."""

_ALWAYS: Mapping[Habit, float] = {"message": 0.05, "anywhere": 0.06, "distance": 0.03}
"""Shares that stay, whatever is seen: of what nobody foresees."""

ANCHORED: tuple[Habit, ...] = ("end", "answer", "user", "rewrite", "message", "depth", "next")
"""The habits that name an offset."""

SHIFTS = 16
"""Tokens by which a parting may be past its place (the end: before it): what two messages' headers have in common."""

_FADING = 0.995
_OWN_FADING = 0.8
_OWN_STRENGTH = 4.0
"""Partings of one client that count as much as those of all."""

_RARE = 0.004
"""Shares of shifts that are left out."""


@final
class Lineage:
    """One client's conversation: its own habits, and where its prompts parted lately."""

    __slots__ = ("depths", "parted", "shares")

    def __init__(self) -> None:
        self.shares: dict[Habit, float] = {}
        self.depths: list[int] = []
        self.parted: tuple[int, str] | None = None

    def add(self, shares: Mapping[Habit, float]) -> None:
        """How the last parting is explained."""
        for habit in self.shares:
            self.shares[habit] *= _OWN_FADING
        for habit, share in shares.items():
            self.shares[habit] = self.shares.get(habit, 0.0) + share


@final
class Habits:
    """The habits of all clients, by what each did last, and how far from their places prompts part."""

    def __init__(self) -> None:
        self._after: dict[Habit | None, dict[Habit, float]] = {}
        self._shifts: dict[Habit, list[float]] = {}
        for habit in ANCHORED:
            self._shifts[habit] = [0.3 if habit == "end" else 0.1, *[1e-3] * (SHIFTS - 1)]
            self._shifts[habit][3] = 0.05

    def shares(self, last: Habit | None, possible: Iterable[Habit], own: Lineage) -> dict[Habit, float]:
        """Of each habit that is possible: how probable it is for a client who did `last` what it did last."""
        known = self._after.get(last, _SHARES)
        total = sum(known[habit] for habit in possible)
        seen = sum(own.shares.values())
        rest = 1.0 - sum(_ALWAYS.get(habit, 0.0) for habit in possible)
        return {
            habit: _ALWAYS.get(habit, 0.0)
            + rest * (_OWN_STRENGTH * known[habit] / total + own.shares.get(habit, 0.0)) / (_OWN_STRENGTH + seen)
            for habit in possible
        }

    def shifts(self, habit: Habit) -> list[tuple[int, float]]:
        """By how many tokens partings are off their places, and how probably; what is rare is left out."""
        counts = self._shifts[habit]
        total = sum(counts)
        return [(shift, count / total) for shift, count in enumerate(counts) if count >= _RARE * total]

    def shift(self, habit: Habit, tokens: int) -> float:
        """Probability of that shift."""
        return self._shifts[habit][tokens] / sum(self._shifts[habit])

    def saw(self, last: Habit | None, habit: Habit, shift: int | None, share: float) -> None:
        """With probability `share` the prompt at hand parted like that."""
        after = self._after.setdefault(last, dict(_SHARES))
        after[habit] += share
        if shift is not None:
            self._shifts[habit][shift] += share

    def fade(self) -> None:
        """Another parting was seen: what was seen before counts for less."""
        for after in self._after.values():
            for habit, first in _SHARES.items():
                after[habit] = first * (1 - _FADING) + after[habit] * _FADING
