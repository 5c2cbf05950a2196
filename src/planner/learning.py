"""What was seen of where prompts part, as expectations for the next ones.

A prompt that differs inside its system text will differ there again: in the same session above all, in other
sessions with the same tools, and inside a tools block that is the same up to there in all sessions. Divergences near a
prompt's end are the prior's to foresee, as no other prompt will part at just that offset; but if a session parts again
and again at about the same distance from the end, as where a client inserts a note some messages above it, it will next
time too. A client that begins one conversation after another under the same system text will begin the next one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar, final

from planner.expectation.weights import LEARNED
from planner.offsets import Candidate, Likely
from planner.outcome import Plan
from planner.planning import plan
from planner.request import PlanRequest

_Seen = TypeVar("_Seen")

_FAR = 4096
"""Tokens that a divergence past the system text must give up to be remembered."""

_ALIKE = 1.25
"""Two distances from the end are about the same if neither is more than so many times the other."""

_RECENT = 2
"""Divergences in a row that must be about as far from the end."""

_TAIL = 256
"""Tokens from the end within which the prior knows enough."""

_HEADER = 32
"""Tokens behind the system text that two conversations may share by the way messages begin."""

_MOST_PLACES = 16
"""Offsets that are remembered of one session, or of one kind of tools."""

_MOST_KEYS = 1024
"""Sessions, and kinds of tools, that are remembered; those not met for longest are forgotten."""


@final
@dataclass(frozen=True, slots=True)
class Divergence:
    """A prompt shares its first `offset` tokens with one of `length` tokens that the memory had evaluated, no more.

    `session`: whose prompts they are. `tools`: what their tools are, the same text for the same tools; None if unknown.
    `static`: tokens before which nothing but tools stand; `system`: nothing but system text and tools; 0 if unknown.
    """

    offset: int
    length: int
    session: str = ""
    tools: str | None = None
    static: int = 0
    system: int = 0

    @classmethod
    def of(
        cls, offset: int, length: int, candidates: Iterable[Candidate], *, session: str = "", tools: str | None = None
    ) -> Divergence:
        """With `static` and `system` as the candidates of the prompt tell."""
        static, system = _start_of(candidates)
        return cls(offset, length, session, tools, static, system)


@final
class Planner:
    """`planner.plan` with a memory: `observe` what happened, and the plans that follow expect it again.

    Not for use by several threads at once.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Places] = OrderedDict()
        self._tools: OrderedDict[str, _Places] = OrderedDict()
        self._everywhere = _Places()
        self._distances: OrderedDict[str, deque[int]] = OrderedDict()
        self._anew: OrderedDict[str, _Anew] = OrderedDict()

    def observe(self, divergence: Divergence) -> None:
        """Learn from a prompt that did not extend the one before it."""
        offset, distance = divergence.offset, divergence.length - divergence.offset
        if offset > divergence.system and distance > _TAIL:
            _of(self._distances, divergence.session, _recent).append(distance)
        if 0 < divergence.system <= offset < divergence.system + _HEADER:
            _of(self._anew, divergence.session, _Anew).last = True
        if offset == 0 or (offset >= divergence.system and distance < _FAR):
            return
        _of(self._sessions, divergence.session, _Places).add(offset)
        if divergence.tools is not None:
            _of(self._tools, divergence.tools, _Places).add(offset)
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

    def expecting(self, request: PlanRequest, *, session: str = "", tools: str | None = None) -> PlanRequest:
        """The request with what was seen added to what it expects."""
        n = request.prompt_tokens
        static, system = _start_of(request.candidates)
        seen = [likely for likely in self.expect(session, tools, static) if likely.offset <= n]
        if system and session in self._anew and (share := self._anew[session].share):
            seen.append(Likely(system, LEARNED.anew * share))
        distances = self._distances.get(session, ())
        if len(distances) == _RECENT and max(distances) <= _ALIKE * min(distances):
            # Each block that the last ones spread over, so that the deepest of them is met too.
            seen += [
                Likely(offset, LEARNED.distance / len(distances))
                for offset in {(n - distance) // request.block * request.block for distance in distances}
                if offset > 0
            ]
        return (
            replace(request, likely=(*request.likely, *sorted(seen, key=lambda likely: likely.offset)))
            if seen
            else request
        )

    def plan(self, request: PlanRequest, *, session: str = "", tools: str | None = None) -> Plan:
        """`planner.plan` of the request, the next prompt of `session`, with what was seen added to it."""
        if session in self._anew:
            self._anew[session].next_prompt()
        return plan(self.expecting(request, session=session, tools=tools))


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


@final
@dataclass(slots=True)
class _Anew:
    """How large a share of the latest prompts were new conversations under the same system text."""

    share: float = 0.0
    last: bool = False

    def next_prompt(self) -> None:
        self.share += (self.last - self.share) * LEARNED.anew_weight
        self.last = False


def identity_of(tools: object) -> str | None:
    """A text that is the same for the same tools, as JSON has them; None for none."""
    # Only those who ask for it pay for loading these.
    import hashlib
    import json

    if not tools:
        return None
    return hashlib.sha256(json.dumps(tools, sort_keys=True).encode()).hexdigest()


def _start_of(candidates: Iterable[Candidate]) -> tuple[int, int]:
    """Tokens before which nothing but tools stand, and nothing but tools and system text."""
    ends = {"tools_end": 0, "system_end": 0}
    for candidate in candidates:
        if candidate.kind in ends:
            ends[candidate.kind] = max(ends[candidate.kind], candidate.offset)
    return ends["tools_end"], ends["system_end"] or ends["tools_end"]


def _recent() -> deque[int]:
    return deque(maxlen=_RECENT)


def _of(known: OrderedDict[str, _Seen], key: str, make: Callable[[], _Seen]) -> _Seen:
    """What is remembered under a key."""
    if key not in known:
        known[key] = make()
    known.move_to_end(key)
    if len(known) > _MOST_KEYS:
        known.popitem(last=False)
    return known[key]
