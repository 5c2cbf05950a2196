"""How probably something that was not met for some requests is met by the next one, learned from what was seen."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import log2
from typing import final

_BUCKETS = 24
"""Ages are told apart by half octaves: 1, 2, 3, 4 … 5, 6 … 7, 8 … 11 and so on."""

_OLDEST = 4096
"""Requests after which an age counts no further."""

_NEIGHBOUR = 0.5
"""What is known of one age holds for the ages beside it by so much."""

_FIRST_ALONE = 2
"""Buckets of the youngest ages, which tell nothing of others: a client that sends several requests in a row."""


def bucket_of(age: int) -> int:
    """The bucket of an age in requests, at least 1."""
    return min(_BUCKETS - 1, int(2 * log2(min(age, _OLDEST))))


@cache
def _beforehand(exponent: float) -> tuple[float, ...]:
    """Mean of age ** -exponent in each bucket."""
    sums, counts = [0.0] * _BUCKETS, [0] * _BUCKETS
    for age in range(1, _OLDEST + 1):
        bucket = bucket_of(age)
        sums[bucket] += age**-exponent
        counts[bucket] += 1
    return tuple(total / max(1, count) for total, count in zip(sums, counts, strict=True))


@cache
def _widths() -> tuple[int, ...]:
    """Ages in each bucket."""
    firsts = [next((age for age in range(1, 64) if bucket_of(age) >= b), 64) for b in range(_BUCKETS)]
    return (*(max(0, b - a) for a, b in pairwise(firsts)), 64)


@final
class Hazard:
    """Returns over chances by age. Before anything is seen it is `first` × age ** -`exponent`, which counts as
    `strength` chances at each age; and never less than `least` of that."""

    __slots__ = ("_chances", "_least", "_prior", "_returns", "_strength")

    def __init__(self, first: float, exponent: float, strength: float, least: float = 0.0) -> None:
        self._prior = [first * share for share in _beforehand(exponent)]
        self._least = least
        self._strength = strength
        self._returns = [0.0] * _BUCKETS
        self._chances = [0.0] * _BUCKETS

    def at_risk(self, bucket: int) -> None:
        """Something of that age may be met by the prompt at hand."""
        self._chances[bucket] += 1.0

    def met(self, bucket: int, share: float) -> None:
        """It was, with probability `share`."""
        self._returns[bucket] += share

    def fade(self, rest: float) -> None:
        """What was seen counts `rest` times as much."""
        self._returns = [value * rest for value in self._returns]
        self._chances = [value * rest for value in self._chances]

    def now(self, bucket: int) -> float:
        """Probability that the next prompt meets it."""
        returns, chances = self._returns[bucket], self._chances[bucket]
        if bucket > _FIRST_ALONE:
            for distance in (1, 2):
                for near in (bucket - distance, bucket + distance):
                    if near < _BUCKETS:
                        returns += _NEIGHBOUR**distance * self._returns[near]
                        chances += _NEIGHBOUR**distance * self._chances[near]
        learned = (returns + self._strength * self._prior[bucket]) / (chances + self._strength)
        return min(0.95, max(learned, self._least * self._prior[bucket]))

    def ahead(self, horizon: float) -> list[float]:
        """By bucket, how much a meeting to come counts: 1 for one by the next prompt, less and less for later ones,
        those within about `horizon` requests most."""
        later = 1.0 - 1.0 / horizon
        value, values = 0.0, [0.0] * _BUCKETS
        for bucket in range(_BUCKETS - 1, -1, -1):
            now = self.now(bucket)
            stays = later * (1.0 - now)
            rest = stays ** _widths()[bucket]
            value = now / (1.0 - stays) * (1.0 - rest) + rest * value
            values[bucket] = value
        return values
