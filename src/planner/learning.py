"""What was seen of where prompts part, as expectations for the next ones.

A prompt that differs inside its system text will differ there again: in the same session above all, in other
sessions with the same tools, and inside a tools block that is the same up to there in all sessions. Divergences near a
prompt's end are the prior's to foresee: no other prompt will part at just that offset.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import final

from planner.outcome import Plan
from planner.request import Likely, PlanRequest
from planner.weights import LEARNED

_FAR = 4096
"""Tokens that a divergence must give up to be remembered."""

_MOST_PLACES = 16
"""Offsets that are remembered of one session, or of one kind of tools."""

_MOST_KEYS = 1024
"""Sessions, and kinds of tools, that are remembered; those not met for longest are forgotten."""


@final
@dataclass(frozen=True, slots=True)
class Divergence:
    """A prompt shares its first `offset` tokens with one of `length` tokens that the memory had evaluated, no more.

    `session`: whose prompts they are. `tools`: what their tools are, the same text for the same tools; None if unknown.
    `static`: tokens before which nothing but tools stand, 0 if unknown.
    """

    offset: int
    length: int
    session: str = ""
    tools: str | None = None
    static: int = 0


@final
class Planner:
    """`planner.plan` with a memory: `observe` what happened, and the plans that follow expect it again.

    Not for use by several threads at once.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Places] = OrderedDict()
        self._tools: OrderedDict[str, _Places] = OrderedDict()
        self._everywhere = _Places()

    def observe(self, divergence: Divergence) -> None:
        """Learn from a prompt that did not extend the one before it."""
        offset = divergence.offset
        if offset == 0 or divergence.length - offset < _FAR:
            return
        _of(self._sessions, divergence.session).add(offset)
        if divergence.tools is not None:
            _of(self._tools, divergence.tools).add(offset)
        if offset < divergence.static:
            self._everywhere.add(offset)

    def expect(self, session: str = "", tools: str | None = None, static: int = 0) -> tuple[Likely, ...]:
        """Where the next prompt of `session` may part from the last, by what was seen, ascending."""
        weights: dict[int, float] = {}
        own = self._sessions.get(session)
        if own is not None:
            for offset, count in own.counts.items():
                weights[offset] = LEARNED.session * min(count, LEARNED.most)
        alike = None if tools is None else self._tools.get(tools)
        if alike is not None:
            for offset, count in alike.counts.items():
                share = count / (alike.total + LEARNED.tools_doubt)
                weights[offset] = weights.get(offset, 0.0) + LEARNED.tools * share
        for offset, count in self._everywhere.counts.items():
            if offset < static and count > 1:
                share = count / (self._everywhere.total + LEARNED.everywhere_doubt)
                weights[offset] = weights.get(offset, 0.0) + LEARNED.everywhere * share
        return tuple(Likely(offset, min(1.0, weights[offset])) for offset in sorted(weights))

    def expecting(
        self, request: PlanRequest, *, session: str = "", tools: str | None = None, static: int = 0
    ) -> PlanRequest:
        """The request with what was seen added to what it expects."""
        n = request.prompt_tokens
        seen = tuple(likely for likely in self.expect(session, tools, static) if likely.offset <= n)
        return replace(request, likely=(*request.likely, *seen)) if seen else request

    def plan(self, request: PlanRequest, *, session: str = "", tools: str | None = None, static: int = 0) -> Plan:
        """`planner.plan` of the request with what was seen added to it."""
        from planner.planning import make_plan

        return make_plan(self.expecting(request, session=session, tools=tools, static=static))


@final
@dataclass(slots=True)
class _Places:
    """How often prompts parted at each offset."""

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0

    def add(self, offset: int) -> None:
        self.counts[offset] = self.counts.pop(offset, 0) + 1
        self.total += 1
        if len(self.counts) > _MOST_PLACES:
            # Among the rarest the one not met for longest.
            gone = min(self.counts, key=self.counts.__getitem__)
            self.total -= self.counts.pop(gone)


def _of(known: OrderedDict[str, _Places], key: str) -> _Places:
    places = known.setdefault(key, _Places())
    known.move_to_end(key)
    if len(known) > _MOST_KEYS:
        known.popitem(last=False)
    return places
