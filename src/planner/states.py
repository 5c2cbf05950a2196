"""The books of a memory that keeps branches: which states are stored, and how the prompt at hand sees them.

The simulator replays whole plans with them (`States.carry_out`); a runtime takes the same steps one at a time as it
evaluates, and tells the books what went otherwise: a save that failed, a state that proved unusable, a prompt that was
cut short. So both see the same states, and plan the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, NamedTuple, final

from planner.offsets import Existing
from planner.outcome import Plan
from planner.request import PlanRequest

Loss = Literal["evicted", "budget", "state-missing"]
"""Why a state is not there. `evicted`: given up for others. `budget`: there was no room to save it. `state-missing`: it
could not be saved, or not be used, for any other reason."""

_MOST_LOST = 4096
"""Losses that are remembered, the latest."""


@final
class State(NamedTuple):
    """The memory after the first `offset` tokens of prompt number `owner`, in `size` bytes (0 if unknown).

    used: the last prompt that began with those tokens. returns: what `Plan.returns` gave for it when that was planned.
    """

    offset: int
    owner: int
    size: int
    used: int
    returns: float = 0.0

    @property
    def identity(self) -> str:
        """Its name in `Existing`, `Restore` and `Eviction`."""
        return _identity(self.owner, self.offset)


def _identity(owner: int, offset: int) -> str:
    return f"{owner}:{offset}"


@final
class States:
    """The stored states of prompts that are numbered in the order in which they came.

    `common(i, j)` says how many leading tokens prompts i and j share, i the later one; it is asked about prompts given
    here and about `owners`. Several prompts may be evaluated at the same time and end in any order.
    """

    def __init__(self, common: Callable[[int, int], int]) -> None:
        self._common = common
        self._stored: dict[str, State] = {}
        self._lost: deque[tuple[int, int, Loss]] = deque(maxlen=_MOST_LOST)

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[State]:
        """All states, in the order in which they were saved."""
        return iter(tuple(self._stored.values()))

    def __contains__(self, identity: object) -> bool:
        return identity in self._stored

    def __getitem__(self, identity: str) -> State:
        return self._stored[identity]

    @property
    def bytes(self) -> int:
        """Bytes of all states."""
        return sum(state.size for state in self._stored.values())

    @property
    def owners(self) -> frozenset[int]:
        """The prompts during which the states were saved, which must stay comparable with those to come."""
        return frozenset(state.owner for state in self)

    def forget_losses(self, known: Collection[int]) -> None:
        """Forget what was lost during prompts other than the `known`, which can be compared with none to come."""
        self._lost = deque((loss for loss in self._lost if loss[1] in known), maxlen=_MOST_LOST)

    def seen_from(self, prompt: int, *, branches: bool) -> dict[str, Existing]:
        """The states as a plan request for that prompt wants them, by identity; without `branches` those on its path.

        Of several on its path at the same offset it is the first saved.
        """
        found: dict[str, Existing] = {}
        on_path: set[int] = set()
        ends: list[State] = []
        for state in sorted(self._stored.values(), key=lambda state: -state.offset):
            shared = self._shared(state, prompt)
            branch = 0
            if shared == state.offset:
                if state.offset in on_path:
                    continue
                on_path.add(state.offset)
            elif not branches:
                continue
            else:
                branch = next((b for b, end in enumerate(ends) if self._on_path(state, end.owner)), len(ends))
                if branch == len(ends):
                    ends.append(state)
            age = max(0, prompt - state.used)
            found[state.identity] = Existing(
                state.offset, state.size, age, state.identity, shared, branch, state.returns
            )
        return found

    def lost(self, prompt: int) -> dict[int, Loss]:
        """Offsets on the path of that prompt at which a state was given up or could not be saved, and why."""
        return {
            offset: why
            for offset, owner, why in self._lost
            if owner == prompt or offset <= self._between(prompt, owner)
        }

    def save(self, prompt: int, offset: int, size: int) -> State | None:
        """Enter the state after `offset` tokens of that prompt; None, and nothing to keep, if there is one already."""
        if any(state.offset == offset and self._on_path(state, prompt) for state in self._stored.values()):
            return None
        state = State(offset, prompt, size, prompt)
        self._stored[state.identity] = state
        return state

    def miss(self, prompt: int, offset: int, why: Loss) -> None:
        """Note that the state after `offset` tokens of that prompt was to be saved and was not."""
        self._lost.append((offset, prompt, why))

    def give_up(self, identity: str, why: Loss = "evicted") -> State:
        """Strike a state out. Raises KeyError if there is none of that name."""
        state = self._stored.pop(identity)
        self._lost.append((state.offset, state.owner, why))
        return state

    def begin(self, plan: Plan, prompt: int, seen: Mapping[str, Existing]) -> list[State]:
        """Give up, and return, what goes before anything is saved: what was not `seen`, and what the plan evicts.

        After the restore, and before another prompt is planned.
        """
        spare = [self.give_up(state.identity) for state in self if state.identity not in seen]
        return spare + self.make_room(plan, prompt, None)

    def make_room(self, plan: Plan, prompt: int, before: int | None) -> list[State]:
        """Give up, and return, what the plan evicts before the save at that offset.

        What has gone meanwhile, by another prompt's plan, is passed over.
        """
        due = [e.identity or _identity(prompt, e.offset) for e in plan.evict if e.before == before]
        return [self.give_up(identity) for identity in due if identity in self._stored]

    def settle(self, prompt: int, returns: Mapping[int, float]) -> None:
        """That prompt is done, or was cut short: the states on its path were used now.

        `returns` are those of its plan. What a state that was not saved would have served falls to the one before it.
        """
        on_path = sorted((s for s in self._stored.values() if self._on_path(s, prompt)), key=lambda s: s.offset)
        offsets = [state.offset for state in on_path]
        numbers = [0.0] * len(on_path)
        for offset, number in returns.items():
            place = bisect_right(offsets, offset) - 1
            if place >= 0:
                numbers[place] += number
        for state, number in zip(on_path, numbers, strict=True):
            self._stored[state.identity] = state._replace(used=max(state.used, prompt), returns=number)

    def carry_out(self, plan: Plan, request: PlanRequest, prompt: int, seen: Mapping[str, Existing]) -> None:
        """All steps of a plan that nothing interrupts, and that was made with what was `seen`.

        A state inside a block of `request.block` tokens counts as one at the block's beginning, if that was evaluated:
        no more is known to be shared.
        """
        begin = plan.restore.offset if plan.restore else 0
        self.begin(plan, prompt, seen)
        for saved in plan.saves:
            self.make_room(plan, prompt, saved)
            offset = saved // request.block * request.block
            if offset > begin:
                self.save(prompt, offset, request.bytes_at(offset))
        self.settle(prompt, {offset // request.block * request.block: n for offset, n in plan.returns.items()})

    def _shared(self, state: State, prompt: int) -> int:
        """How many of a state's tokens a prompt begins with."""
        return state.offset if state.owner == prompt else min(state.offset, self._between(prompt, state.owner))

    def _on_path(self, state: State, prompt: int) -> bool:
        return self._shared(state, prompt) == state.offset

    def _between(self, one: int, other: int) -> int:
        return self._common(max(one, other), min(one, other))
