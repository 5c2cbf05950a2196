"""Where the next prompt is expected to part from this one, should it not simply extend what the memory holds.

A next prompt that extends the memory is served by the live state, whatever is stored; so the prior is over the others
and its mass is 1. It has atoms at the offsets that templates and clients roll back to, and the rest is spread over all
offsets: a quarter evenly, the rest denser towards the end (equal mass for equal ratios of the distance to the end),
because corrections hit what was said lately. An edited message often differs from its first tokens on, so most
of what is spread over a message stands at its start. The weights are set by hand from the events that users report.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import log
from typing import NamedTuple, final

from planner.request import BARRIERS, PlanRequest
from planner.roles import Roles

_SYSTEM_END = 0.12
_SYSTEM_TEXT = 0.08
_LAST_USER_START = 0.08
_REWRITE = 0.25
_ANSWER = 0.15
_RESEND = 0.10
_PROMPT_END = 0.05
_WANTED = 0.15
_MEDIA_END = 0.10
_EDIT = 0.15
_SPREAD = 0.10

_NEAR = 64
"""Tokens from the end within which the denser part of the spread is about even."""


@final
class Atom(NamedTuple):
    """Probability `weight` that the next prompt shares exactly `offset` tokens with this one."""

    offset: int
    weight: float


@final
class Prior:
    """A distribution over the offsets 0 … length at which the next prompt diverges.

    `atoms` and `spread` (the weight of the spread part) are scaled to sum to 1.
    """

    __slots__ = ("_mass", "_moment", "_offsets", "length", "spread")

    def __init__(self, length: int, atoms: Iterable[Atom], spread: float) -> None:
        ordered = sorted(atom for atom in atoms if atom.weight > 0)
        total = sum(atom.weight for atom in ordered) + spread
        self.length = length
        self.spread = spread / total
        self._offsets = [atom.offset for atom in ordered]
        self._mass = [0.0, *accumulate(atom.weight / total for atom in ordered)]
        self._moment = [0.0, *accumulate(atom.offset * atom.weight / total for atom in ordered)]

    def below(self, offset: int) -> tuple[float, float]:
        """Probability that the divergence lies below `offset`, and the expectation of its offset there.

        `length + 1` gives all of it: the mass 1 and the mean divergence.
        """
        i = bisect_left(self._offsets, offset)
        mass, moment = _spread_below(min(offset, self.length), self.length)
        return self._mass[i] + self.spread * mass, self._moment[i] + self.spread * moment

    def replay(self, kept: Sequence[int]) -> float:
        """Expected tokens from the nearest of `kept` (ascending), or else from the start, to the divergence."""
        total = 0.0
        starts = [0, *kept]
        before = (0.0, 0.0)
        for start, end in zip(starts, [*kept, self.length + 1], strict=True):
            after = self.below(end)
            total += after[1] - before[1] - start * (after[0] - before[0])
            before = after
        return max(0.0, total)


def _spread_below(offset: int, length: int) -> tuple[float, float]:
    """Mass and moment of the spread below `offset`."""
    even = (offset / length, offset * offset / (2 * length))
    # Density 1 / (length - d + near) at divergence d, scaled to mass 1, integrated from 0 to `offset`.
    scale = log((length + _NEAR) / _NEAR)
    part = log((length + _NEAR) / (length - offset + _NEAR))
    late = (part / scale, ((length + _NEAR) * part - offset) / scale)
    return (even[0] + 3 * late[0]) / 4, (even[1] + 3 * late[1]) / 4


def prior_of(request: PlanRequest, roles: Roles) -> Prior:
    """The prior that the roles of a prompt's offsets give."""
    n = request.prompt_tokens
    atoms = [
        # The same prompt again: at least one token must be evaluated, so only states before the last token help.
        Atom(n - 1, _RESEND),
        # The answer comes back otherwise than it was sampled.
        Atom(n, _PROMPT_END),
    ]
    rewrite = [offset for offset in (roles.last_user_end, roles.last_stable) if offset is not None]
    atoms += [Atom(offset, _REWRITE / len(rewrite)) for offset in rewrite]
    for offset, weight in (
        (roles.system_end, _SYSTEM_END),
        (roles.last_user_start, _LAST_USER_START),
        (roles.messages_end, _ANSWER),
    ):
        if offset is not None:
            atoms.append(Atom(offset, weight))
    if roles.system_end is not None:
        # Dates, notes and tools that change between conversations tend to stand late in the system text.
        atoms += [Atom(roles.system_end * eighth // 8, _SYSTEM_TEXT / 4) for eighth in range(4, 8)]
    media = [end for _, end in request.forbidden if end > 0]
    media += [c.offset for c in request.candidates if c.kind == "media_end"]
    wanted = [*request.wanted, *(c.offset for c in request.candidates if c.kind == "wanted")]
    for offsets, weight in ((set(media), _MEDIA_END), (set(wanted), _WANTED)):
        atoms += [Atom(offset, weight / len(offsets)) for offset in offsets]
    atoms += [Atom(likely.offset, likely.weight) for likely in request.likely]
    return Prior(n, [*atoms, *_edits(request)], _SPREAD)


def _edits(request: PlanRequest) -> list[Atom]:
    """At the start of each message what is spread over it."""
    n = request.prompt_tokens
    starts = sorted({c.offset for c in request.candidates if c.kind in BARRIERS})
    below = [_spread_below(offset, n)[0] for offset in (*starts, n)]
    return [Atom(start, _EDIT * (b - a)) for start, (a, b) in zip(starts, pairwise(below), strict=True)]
