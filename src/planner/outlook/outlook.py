"""What a memory that keeps branches expects of the prompts to come, of all its conversations at once.

A prompt to come either goes on with a conversation, and parts from its last prompt at one of the places that clients
part at (`habits`), or it parts at a place where prompts parted before, or may (`place`). How probably each of them is
met depends on how many requests ago it was, and on what it is: that is learned (`hazard`). So is what clients do. Each
prompt is shared out among all that could explain it, as probable as they made it. The number of conversations and
places is bounded: so is the time that a prompt takes, however many came before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, final

from planner.offsets import Candidate, Existing, Likely
from planner.outlook.conversation import Conversation, Standing
from planner.outlook.habits import Habit, Habits, Lineage
from planner.outlook.hazard import Hazard, bucket_of
from planner.outlook.place import Place, Role
from planner.request import PlanRequest
from planner.states import States

_MOST_CONVERSATIONS = 64
_MOST_PLACES = 192
_MOST_COMMON = 1 << 16

_FADING = 0.998
"""What is left after each request of what was seen before."""

_RETURNS: Mapping[Standing, float] = {
    "new": 0.25,
    "varied": 0.2,
    "fresh": 0.4,
    "second": 0.5,
    "regular": 0.5,
    "left": 0.1,
}
_MEETINGS: Mapping[str, float] = {
    "system_end": 0.15,
    "tools_end": 0.02,
    "tool_end": 0.01,
    "inside": 0.015,
    "parted": 0.25,
}
_OFTEN = 0.5
"""How probably each is met by the next prompt, before anything is seen; the last: a place met more than once."""

_LITTLE = 64
"""Tokens that prompts may have in common because all of a template's do."""

_HEADER = 8
"""Tokens past the system text that conversations have in common."""

_EIGHTHS = range(2, 8)
"""Of system text and tools: where they may differ between conversations."""

_INSURED = 0.7
"""What is expected of places where none parted yet, whatever is seen elsewhere: that part of it stays."""

_PART = 0.35
_LEAST_HORIZON = 2.0
"""Requests that are looked ahead, for each checkpoint of the budget: about as long as a state stays."""


_HORIZONS = 8.0
"""Horizons that a state is good for, once it is saved: what it costs is held against what it saves in all of them."""


class _Explained(NamedTuple):
    """What may have brought a prompt, and how probably; a conversation with how it went on, or a place."""

    weight: float
    conversation: Conversation | None = None
    place: Place | None = None
    habit: Habit = "anywhere"
    shift: int | None = None


@final
class Outlook:
    """`common(i, j)` says how many leading tokens prompts i and j share, i the later one, as `States` wants it too."""

    def __init__(self, common: Callable[[int, int], int]) -> None:
        self._ask = common
        self._known: dict[tuple[int, int], int] = {}
        self._now = 0
        self._habits = Habits()
        self._returns = {standing: Hazard(first, 1.0, 4.0) for standing, first in _RETURNS.items()}
        self._meetings: dict[tuple[str, int], Hazard] = {}
        self._conversations: dict[int, Conversation] = {}
        self._places: list[Place] = []

    def forget(self, known: Collection[int]) -> None:
        """Forget all that is told by prompts other than the `known`, which can be compared with none to come."""
        self._conversations = {n: c for n, c in self._conversations.items() if n in known}
        self._places = [place for place in self._places if place.prompt in known]

    def arrive(
        self, prompt: int, length: int, candidates: Sequence[Candidate], shared: int, nearest: int | None, whole: int
    ) -> None:
        """A prompt is about to be planned, which shares that many tokens with the `nearest`, of `whole` tokens."""
        self._now += 1
        self._at_risk()
        parted = min(shared, length)
        system_end = max((c.offset for c in candidates if c.kind == "system_end"), default=0)
        standing: Standing = "fresh"
        if parted < _LITTLE and (parted == 0 or parted < system_end / 4):
            standing = "new"
        elif parted < system_end - 4:
            standing = "varied"
        lineage, habit = Lineage(), None
        if parted and nearest is not None:
            shares = self._learn(prompt, parted)
            before = self._continued(prompt, parted)
            if before is not None:
                standing = "second" if before.standing in ("new", "varied", "fresh") else "regular"
                lineage, habit = before.lineage, self._follow(before, parted, shares)
            if parted < whole:
                self._meet(prompt, parted)
        self._add_places(prompt, candidates, system_end)
        conversation = Conversation(prompt, length, candidates, standing, lineage, habit)
        conversation.last = self._now
        conversation.expect(self._habits)
        self._conversations[prompt] = conversation
        self._bound(prompt)

    def expect(self, request: PlanRequest, prompt: int, states: States) -> PlanRequest:
        """The request with how many prompts to come part where on its path, and how many each state beside serves."""
        horizon = max(_LEAST_HORIZON, _PART * (request.budget.checkpoints or len(states)))
        returns = {standing: hazard.ahead(horizon) for standing, hazard in self._returns.items()}
        meetings = {kind: self._meeting(kind).ahead(horizon) for kind in {place.kind for place in self._places}}
        beside = _Beside([e for e in request.existing if e.beside], states, self.common)
        atoms: dict[int, float] = {}
        for conversation in self._conversations.values():
            worth = _HORIZONS * returns[conversation.standing][self._age(conversation.last - 1)]
            conversation.worth = worth
            self._add(conversation, worth, self.common(prompt, conversation.prompt), beside, atoms)
        for place in self._places:
            worth = _HORIZONS * meetings[place.kind][self._age(place.last - 1)]
            shared = self.common(prompt, place.prompt)
            for offset, share in place.offsets():
                if offset <= shared:
                    atoms[offset] = atoms.get(offset, 0.0) + worth * share
                elif not beside.serve(place.prompt, offset, worth * share):
                    atoms[shared] = atoms.get(shared, 0.0) + worth * share
        expected = tuple(Likely(offset, weight) for offset, weight in sorted(atoms.items()) if offset)
        existing = tuple(beside.valued(e) if e.beside else e for e in request.existing)
        return replace(request, expected=expected, existing=existing)

    def _add(
        self, conversation: Conversation, worth: float, shared: int, beside: _Beside, atoms: dict[int, float]
    ) -> None:
        """What is expected of a conversation, which shares that much with the prompt: on its path, and beyond."""
        on_path = bisect_right(conversation.offsets, shared)
        for offset, mass in zip(conversation.offsets[:on_path], conversation.masses, strict=False):
            atoms[offset] = atoms.get(offset, 0.0) + worth * mass
        if on_path < len(conversation.offsets):
            states = beside.on_path(conversation.prompt, shared)
            ends = [*(e.offset for e in states[1:]), conversation.length + 1]
            first = states[0].offset if states else conversation.length + 1
            atoms[shared] = atoms.get(shared, 0.0) + worth * conversation.between(shared + 1, first)
            for existing, end in zip(states, ends, strict=False):
                beside.add(existing, worth * conversation.between(existing.offset, end))

    def common(self, one: int, other: int) -> int:
        """How many leading tokens two prompts share; asked for once."""
        key = (one, other) if one > other else (other, one)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_COMMON:
                self._known.clear()
            known = self._known[key] = self._ask(*key)
        return known

    def _age(self, last: int) -> int:
        return bucket_of(max(1, self._now - last))

    def _meeting(self, kind: tuple[str, int]) -> Hazard:
        if kind not in self._meetings:
            name, met = kind
            first = _OFTEN if met > 1 else _MEETINGS[name]
            self._meetings[kind] = Hazard(first, 0.8, 3.0) if met else Hazard(first, 0.8, 8.0, _INSURED)
        return self._meetings[kind]

    def _at_risk(self) -> None:
        for conversation in self._conversations.values():
            self._returns[conversation.standing].at_risk(self._age(conversation.last))
        for place in self._places:
            self._meeting(place.kind).at_risk(self._age(place.last))
        for hazard in (*self._returns.values(), *self._meetings.values()):
            hazard.fade(_FADING)

    def _learn(self, prompt: int, parted: int) -> dict[Habit, float]:
        """Share a prompt out among all that may have brought it; how it goes on, if it does with a conversation."""
        found: list[_Explained] = []
        for conversation in self._conversations.values():
            if self.common(prompt, conversation.prompt) == parted:
                now = self._returns[conversation.standing].now(self._age(conversation.last))
                found += (
                    _Explained(now * weight, conversation, None, habit, shift)
                    for habit, shift, weight in conversation.explanations(self._habits, parted)
                )
        for place in self._places:
            if place.is_met(parted, self.common(prompt, place.prompt)):
                now = self._meeting(place.kind).now(self._age(place.last))
                found.append(_Explained(now * place.share(parted), None, place))
        total = sum(one.weight for one in found)
        shares: dict[Habit, float] = {}
        for weight, goes_on, met, habit, shift in found:
            share = weight / total
            if goes_on is not None:
                self._returns[goes_on.standing].met(self._age(goes_on.last), share)
                self._habits.saw(goes_on.last_habit, habit, shift, share)
                shares[habit] = shares.get(habit, 0.0) + share
            elif met is not None:
                self._meeting(met.kind).met(self._age(met.last), share)
        self._habits.fade()
        all_of_them = sum(shares.values())
        return {habit: share / all_of_them for habit, share in shares.items()} if all_of_them else {}

    def _continued(self, prompt: int, parted: int) -> Conversation | None:
        """The conversation that a prompt goes on with: the latest that shares as much, more than system text."""
        some = [c for c in self._conversations.values() if self.common(prompt, c.prompt) == parted]
        latest = max(some, key=lambda conversation: conversation.last, default=None)
        return latest if latest is not None and parted > latest.system_end + _HEADER else None

    def _follow(self, before: Conversation, parted: int, shares: Mapping[Habit, float]) -> Habit:
        """That conversation went on: what is learned of its client, and of what is left behind."""
        lineage = before.lineage
        lineage.add(shares)
        if parted < before.length - _HEADER:
            lineage.depths = [*lineage.depths, before.depth_of(parted)][-2:]
            kind = before.message_at(parted)
            lineage.parted = None if kind is None else (parted, kind)
        if parted >= before.answer:
            del self._conversations[before.prompt]
        else:
            before.standing, before.last = "left", self._now
        habit: Habit = max(shares, key=lambda habit: shares[habit], default="anywhere")
        if habit == "answer":
            return "end"
        return habit if habit in ("end", "user", "rewrite") else "depth"

    def _meet(self, prompt: int, parted: int) -> None:
        for place in self._places:
            if (place.met or place.role != "inside") and place.is_met(parted, self.common(prompt, place.prompt)):
                place.meet(prompt, parted, self._now)
                return
        self._add_place(prompt, parted, "inside", met=1)

    def _add_places(self, prompt: int, candidates: Sequence[Candidate], system_end: int) -> None:
        for candidate in candidates:
            if candidate.kind in ("system_end", "tools_end", "tool_end"):
                self._add_place(prompt, candidate.offset, candidate.kind)
        for eighth in _EIGHTHS if system_end else ():
            self._add_place(prompt, system_end * eighth // 8, "inside")

    def _add_place(self, prompt: int, offset: int, role: Role, *, met: int = 0) -> None:
        same = (p for p in self._places if p.offset == offset and self.common(prompt, p.prompt) >= offset)
        if offset > 0 and next(same, None) is None:
            self._places.append(Place(prompt, offset, role, self._now, met=met))

    def _bound(self, prompt: int) -> None:
        """Forget the conversations and the places from which least is expected."""
        if len(self._conversations) > _MOST_CONVERSATIONS:
            others = (c for c in self._conversations.values() if c.prompt != prompt)
            del self._conversations[min(others, key=lambda conversation: conversation.worth).prompt]
        if len(self._places) > _MOST_PLACES:
            self._places.sort(key=lambda place: place.last + 8 * place.met)
            del self._places[: len(self._places) - _MOST_PLACES]


@final
class _Beside:
    """The states of other conversations than the prompt's: which lies on the path of which, and what they serve."""

    def __init__(self, existing: Sequence[Existing], states: States, common: Callable[[int, int], int]) -> None:
        self._existing = sorted(existing, key=lambda e: e.offset)
        self._owners = [states[e.identity].owner for e in self._existing if e.identity is not None]
        self._common = common
        self._paths: dict[int, list[Existing]] = {}
        self._serves: dict[str | None, float] = {}
        self._under: dict[str | None, str | None] = {}
        for i, one in enumerate(self._existing):
            below = (
                other.identity
                for other, owner in zip(self._existing[:i][::-1], self._owners[:i][::-1], strict=True)
                if other.offset < one.offset and common(self._owners[i], owner) >= other.offset
            )
            self._under[one.identity] = next(below, None)

    def on_path(self, prompt: int, past: int) -> list[Existing]:
        """Those of more than `past` tokens that lie on the path of a prompt, ascending."""
        found = self._paths.get(prompt)
        if found is None:
            common = self._common
            found = self._paths[prompt] = [
                existing
                for existing, owner in zip(self._existing, self._owners, strict=True)
                if common(prompt, owner) >= existing.offset
            ]
        return found[bisect_right(found, past, key=lambda existing: existing.offset) :]

    def serve(self, prompt: int, offset: int, mass: float) -> bool:
        """Prompts part from that one after `offset` tokens: note which state serves them; False if none does."""
        found = self.on_path(prompt, 0)
        last = bisect_right(found, offset, key=lambda existing: existing.offset)
        if last:
            self.add(found[last - 1], mass)
        return bool(last)

    def add(self, existing: Existing, mass: float) -> None:
        """Note that a state serves so many prompts to come."""
        self._serves[existing.identity] = self._serves.get(existing.identity, 0.0) + mass

    def valued(self, existing: Existing) -> Existing:
        """With what it serves, and the state before it."""
        serves = self._serves.get(existing.identity, 0.0)
        return replace(existing, returns=serves, under=self._under.get(existing.identity))
