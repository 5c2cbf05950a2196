"""Where the prompts to come are expected to part from this one.

A next prompt that extends the memory is served by the live state, whatever is stored; so the prior is over the others.
It has atoms at the offsets that templates and clients roll back to, and stretches over which the rest is spread
evenly: the tools, the system text, distances before the end. The weights stand in `planner.expectation.weights`. What
was seen before comes in as `PlanRequest.likely`. `Prior` is scaled to mass 1; `Prior.rate` is what it was before, so
that the price of a save can be held against what the save is worth.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, final

from planner.expectation.roles import NEAR_END, Roles
from planner.expectation.weights import EVENTS, FITTED
from planner.offsets import BARRIERS
from planner.request import PlanRequest

_NEAR = 64
"""Tokens from the end within which the denser part of a spread is even; beyond, each doubling of the distance weighs
the same."""

_BLOCK = 64
"""Tokens in a block of the trace that the weights were fitted on."""

_AFTER = 64
"""Tokens after the system text within which first user messages begin alike."""

_GENERATION_PROMPT = 2
"""Tokens at the end of that trace's prompts which no later prompt has."""

_FIRST_USER = (8, 32, 128)
"""Blocks after the system text over which the first user message's share is spread."""


@final
class Atom(NamedTuple):
    """Probability `weight` that the next prompt shares exactly `offset` tokens with this one."""

    offset: int
    weight: float


@final
class Stretch(NamedTuple):
    """Probability `weight` that it shares from `begin` to `end` tokens, all of them alike."""

    begin: int
    end: int
    weight: float


@final
class Prior:
    """A distribution over the offsets 0 … length at which the next prompt diverges.

    The weights of `atoms`, `stretches` and `spread` are scaled to sum to 1; `rate` is their sum. `spread` is a weight
    over all offsets: a quarter of it evenly, the rest denser towards the end.
    """

    __slots__ = ("_cuts", "_density", "_mass", "_moment", "_offsets", "_over_mass", "_over_moment", "length", "rate")

    def __init__(
        self, length: int, atoms: Iterable[Atom], spread: float = 0.0, stretches: Iterable[Stretch] = ()
    ) -> None:
        ordered = sorted(atom for atom in atoms if atom.weight > 0)
        over = [s for s in (*stretches, *(_spread(length, spread) if spread else ())) if s.end > s.begin]
        self.length = length
        self.rate: float = sum(atom.weight for atom in ordered) + sum(stretch.weight for stretch in over)
        total = self.rate or 1.0
        self._offsets = [atom.offset for atom in ordered]
        self._mass = [0.0, *accumulate(atom.weight / total for atom in ordered)]
        self._moment = [0.0, *accumulate(atom.offset * atom.weight / total for atom in ordered)]
        self._cuts, self._density = _overlay(over, total)
        self._over_mass, self._over_moment = [0.0], [0.0]
        for (low, high), density in zip(pairwise(self._cuts), self._density, strict=True):
            self._over_mass.append(self._over_mass[-1] + density * (high - low))
            self._over_moment.append(self._over_moment[-1] + density * (high * high - low * low) / 2)

    def below(self, offset: int) -> tuple[float, float]:
        """Probability that the divergence lies below `offset`, and the expectation of its offset there.

        `length + 1` gives all of it: the mass 1 and the mean divergence.
        """
        i = bisect_left(self._offsets, offset)
        mass, moment = self._mass[i], self._moment[i]
        j = bisect_right(self._cuts, offset) - 1
        if j >= 0:
            mass, moment = mass + self._over_mass[j], moment + self._over_moment[j]
            if j < len(self._density):
                low, density = self._cuts[j], self._density[j]
                mass += density * (offset - low)
                moment += density * (offset * offset - low * low) / 2
        return mass, moment

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


def _overlay(stretches: Sequence[Stretch], total: float) -> tuple[list[int], list[float]]:
    """Stretches that overlap, as neighbours: where they meet, and the density on each."""
    cuts = sorted({cut for stretch in stretches for cut in (stretch.begin, stretch.end)})
    index = {cut: i for i, cut in enumerate(cuts)}
    steps = [0.0] * len(cuts)
    for begin, end, weight in stretches:
        density = weight / total / (end - begin)
        steps[index[begin]] += density
        steps[index[end]] -= density
    return cuts, [max(0.0, density) for density in accumulate(steps[:-1])]


def _spread(length: int, weight: float) -> list[Stretch]:
    begins = [length]
    distance = _NEAR
    while begins[-1] > 0:
        begins.append(max(0, length - distance))
        distance *= 2
    share = 0.75 * weight / (len(begins) - 1)
    return [Stretch(0, length, 0.25 * weight), *(Stretch(low, high, share) for high, low in pairwise(begins))]


def prior_of(request: PlanRequest, roles: Roles, trust: float = 1.0) -> Prior:
    """The prior that the roles of a prompt's offsets give, together with `trust` times what the request expects."""
    told = [Atom(likely.offset, trust * likely.weight) for likely in request.likely]
    media = [c.offset for c in request.candidates if c.kind == "media_end"]
    media = media or [end for _, end in request.forbidden if end > 0]
    wanted = [*request.wanted, *(c.offset for c in request.candidates if c.kind == "wanted")]
    for offsets, weight in ((set(media), EVENTS.media_end), (set(wanted), EVENTS.wanted)):
        told += [Atom(offset, weight / len(offsets)) for offset in offsets]
    if roles.marked:
        return Prior(request.prompt_tokens, [*told, *_events(request, roles), *_edits(request)], EVENTS.spread)
    atoms, stretches = _unmarked(request, roles)
    return Prior(request.prompt_tokens, [*told, *atoms], 0.0, stretches)


def _events(request: PlanRequest, roles: Roles) -> list[Atom]:
    """What templates and clients do to a conversation whose messages are known."""
    n = request.prompt_tokens
    atoms = [
        # The same prompt again: at least one token must be evaluated, so only states before the last token help.
        Atom(n - 1, EVENTS.resend),
        # The answer comes back otherwise than it was sampled.
        Atom(n, EVENTS.prompt_end),
    ]
    rewrite = [offset for offset in (roles.last_user_end, roles.last_stable) if offset is not None]
    atoms += [Atom(offset, EVENTS.rewrite / len(rewrite)) for offset in rewrite]
    for offset, weight in (
        (roles.system_end, EVENTS.system_end),
        (roles.last_user_start, EVENTS.last_user_start),
        (roles.messages_end, EVENTS.answer),
    ):
        if offset is not None:
            atoms.append(Atom(offset, weight))
    if roles.tools_end is not None:
        # Another conversation may have more tools or others, from one of them on.
        atoms.append(Atom(roles.tools_end, FITTED.tools_end))
        atoms += [Atom(offset, FITTED.tools / len(roles.tool_ends)) for offset in roles.tool_ends]
    if roles.system_end is not None:
        # Dates, notes and tools that change between conversations tend to stand late in the system text.
        atoms += [Atom(roles.system_end * eighth // 8, EVENTS.system_text / 4) for eighth in range(4, 8)]
    return atoms


def _edits(request: PlanRequest) -> list[Atom]:
    """An edited message often differs from its first tokens on: at the start of each message what is spread over it."""
    n = request.prompt_tokens
    spread = Prior(n, (), 1.0)
    starts = sorted({c.offset for c in request.candidates if c.kind in BARRIERS})
    below = [spread.below(offset)[0] for offset in (*starts, n)]
    return [Atom(start, EVENTS.edit * (b - a)) for start, (a, b) in zip(starts, pairwise(below), strict=True)]


def _unmarked(request: PlanRequest, roles: Roles) -> tuple[list[Atom], list[Stretch]]:
    """A prompt of which no more is known than where tools and system text end: what real sessions did."""
    n, block = request.prompt_tokens, request.block
    tools, system = roles.tools_end or 0, roles.system_end or roles.tools_end or 0
    atoms = [*_tail(n, block), *_user_start(roles, system, block)]
    stretches = [
        Stretch(0, tools, FITTED.tools),
        Stretch(tools, system, FITTED.system),
        Stretch(system, n, FITTED.even * (n - system)),
    ]
    if system:
        after = min(n, system + max(block, _AFTER))
        atoms += [Atom(system, FITTED.system_end), Atom(after, FITTED.after_system)]
        for i, weight in enumerate(FITTED.system_tail, 1):
            if system - i * _BLOCK > tools:
                atoms.append(Atom(system - i * _BLOCK, weight))
        stretches += [
            Stretch(system, min(n, system + _BLOCK * blocks), weight)
            for blocks, weight in zip(_FIRST_USER, FITTED.first_user, strict=True)
        ]
    if tools and tools != system:
        atoms.append(Atom(tools, FITTED.tools_end))
    high = max(system, n - len(FITTED.tail) * _BLOCK)
    for i, weight in enumerate(FITTED.distance):
        width = _BLOCK << (i + 2)
        low = max(system, n - 2 * width)
        stretches.append(Stretch(low, high, weight * max(0, high - low) / width))
        high = max(system, min(low, high))
    return atoms, stretches


def _tail(n: int, block: int) -> list[Atom]:
    """Prompts end with a few tokens that history does not have; what else is near the end seldom changes."""
    if block == 1:
        return [Atom(max(0, n - NEAR_END), FITTED.generation_prompt)]
    end, rest = n // block, n % block
    weights = list(FITTED.tail)
    # The last whole block is lost if those few tokens reach into it, and the less likely otherwise the longer the rest.
    weights[0] = FITTED.generation_prompt if rest < _GENERATION_PROMPT else weights[0] * (1 - 0.9 * rest / block)
    return [Atom((end - i) * block, weight) for i, weight in enumerate(weights, 1) if end > i]


def _user_start(roles: Roles, system: int, block: int) -> list[Atom]:
    """The last message of the user is written anew."""
    start = roles.last_user_start
    if start is None or start <= system:
        return []
    atoms = [Atom(start, FITTED.last_user_start)]
    if block > 1:
        # How long the answer before it was is not known to the token.
        atoms += [Atom(start + block, 0.1 * FITTED.last_user_start), Atom(start - block, 0.1 * FITTED.last_user_start)]
    return atoms
