"""What a full memory gives up: cells, sequences and saved states, the least valuable first."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import final

from planner import State
from planner.expectation.weights import BRANCHES
from runtime.errors import StateError
from runtime.tree.archive import Archive
from runtime.tree.branch import Branch
from runtime.tree.checkpoint import CheckpointStore
from runtime.tree.history import PromptHistory
from runtime.tree.pool import Pool

_log = logging.getLogger(__name__)


@final
class Retention:
    """Keeps branches as long as they are needed, and makes room.

    A state that is kept needs the attention cells of its tokens, so one branch at least that has these tokens stays;
    the states of a recurrent memory are whole. Branches of a dense memory stay as long as there is room.
    `returns`: what the plan of each prompt in evaluation expects of the states it saves. What a branch could go on from
    is put into the `archive` before its cells or its sequence are given up.
    """

    def __init__(
        self, pool: Pool, store: CheckpointStore, history: PromptHistory, archive: Archive | None = None
    ) -> None:
        self.pool = pool
        self.archive = archive
        self.store = store
        self.history = history
        self.returns: dict[int, Mapping[int, float]] = {}

    def holders(self) -> dict[str, list[Branch]]:
        """The branches that have the tokens of each state, by its identity."""
        branches = list(self.pool)
        return {
            state.identity: [branch for branch in branches if branch.holds(self.store[state.identity])]
            for state in self.store.states
        }

    def needing(self) -> dict[Branch, list[State]]:
        """The states that need a branch, because no other has their tokens, by offset."""
        needing: dict[Branch, list[State]] = {branch: [] for branch in self.pool}
        if self.pool.memory.has_cells:
            for identity, holders in self.holders().items():
                if len(holders) == 1:
                    needing[holders[0]].append(self.store.states[identity])
        return {branch: sorted(states, key=lambda state: state.offset) for branch, states in needing.items()}

    def ways_back(self) -> set[str]:
        """The last state on the path of each request in evaluation: what it goes back to if a decode fails."""
        found = set()
        for branch in self.pool.busy:
            held = [state for state in self.store.states if branch.holds(self.store[state.identity])]
            if held:
                found.add(max(held, key=lambda state: state.offset).identity)
        return found

    def prune(self) -> None:
        """Drop branches that nothing needs any more: neither busy nor the tip, and no state needs them."""
        for branch in self.pool.idle():
            if not branch.settled:
                self.pool.drop(branch)
                self.drop_orphans()
        if self.pool.memory.cuts_anywhere:
            self._prune_covered()
            return
        holders = [] if not self.pool.memory.has_cells else list(self.holders().values())
        for branch in self.pool.idle():
            if branch is not self.pool.tip and [branch] not in holders:
                self.pool.drop(branch)
                holders = [[holder for holder in some if holder is not branch] for some in holders]

    def _prune_covered(self) -> None:
        """Drop branches that are the beginning of one that has grown."""
        grown = self.pool.busy | ({self.pool.tip} if self.pool.tip else set())
        for branch in self.pool.idle():
            if any(other is not branch and other.covers(branch) for other in grown):
                self.pool.drop(branch)

    def drop_orphans(self) -> None:
        """Give up the states whose cells are gone."""
        if self.pool.memory.has_cells:
            for identity, holders in self.holders().items():
                if not holders:
                    self.store.give_up(identity, "state-missing")

    def free_state(self) -> bool:
        """Give up the state worth least for another one; False if only ways back are left."""
        spared = self.ways_back()
        states = [state for state in self.store.states if state.identity not in spared]
        if not states:
            return False
        self.store.give_up(self._least(states).identity, "evicted")
        self.prune()
        return True

    def free_sequence(self, spared: Branch | None = None) -> bool:
        """Give up the idle branch worth least, with the states that need it; False if there is none but the spared."""
        idle = [branch for branch in self.pool.idle() if branch is not spared]
        if not idle:
            return False
        needing = self.needing()
        # Dense branches have no states, and the one used least recently is the first.
        branch = min(idle, key=lambda b: (b is self.pool.tip, sum(map(self._worth, needing[b]))))
        self._put_away(branch, needing[branch])
        self.lose_past(branch, 0)
        self.pool.drop(branch)
        return True

    def free_cells(self, number: int) -> bool:
        """Give up something that holds cells, on a dense memory at most `number` of them; False if nothing is idle.

        First what is past the last state that needs a branch, then the state worth least of those that end one.
        """
        idle = self.pool.idle()
        if not idle:
            return False
        if self.pool.memory.cuts_anywhere:
            self._shorten(idle, number)
            return True
        needing = self.needing()
        for branch in idle:
            if not needing[branch]:
                self.pool.drop(branch)
                return True
            if needing[branch][-1].offset < branch.length:
                self._go_back(branch, needing[branch][-1])
                return True
        least = self._least([needing[branch][-1] for branch in idle])
        self._put_away(next(branch for branch in idle if least in needing[branch]), [least])
        if least.identity in self.store.states:
            self.store.give_up(least.identity, "evicted")
        return True

    def _shorten(self, idle: Sequence[Branch], number: int) -> None:
        """Take the last tokens of a dense branch, media as a whole, or all of one whose cells others share."""
        branch = next((branch for branch in idle if self.pool.own_cells(branch)), idle[0])
        own = self.pool.own_cells(branch)
        length = branch.whole(branch.length - min(number, own)) if own else 0
        self._put_away(branch, [])
        length = min(length, branch.length)
        self.lose_past(branch, length)
        if length:
            branch.cut(length)
        else:
            self.pool.drop(branch)

    def lose_past(self, branch: Branch, length: int) -> None:
        """A branch is about to lose what is past `length` tokens: give up the states that need it."""
        _log.info("branch given up", extra={"prompt": branch.used, "tokens": branch.length, "kept": length})
        if self.pool.memory.cuts_anywhere:
            offset = min(branch.length, self.history.length(branch.used))
            self.store.states.miss(branch.used, offset, "evicted")
        for state in self.needing()[branch]:
            if state.offset > length:
                self.store.give_up(state.identity, "evicted")

    @contextmanager
    def scratch(self) -> Iterator[Branch | None]:
        """An empty branch inside the block, None if all sequences or windows are in use."""
        no_window = self.pool.memory.slides and self.pool.window_room() < self.pool.memory.window
        if no_window or len(self.pool) == self.pool.context.n_seq_max:
            yield None
            return
        branch = self.pool.new()
        try:
            yield branch
        finally:
            self.pool.drop(branch)

    def _put_away(self, branch: Branch, states: Sequence[State]) -> None:
        """Store a branch, about to be given up, as it was at the end of its prompt or at the last of its states."""
        if self.archive is None:
            return
        if self.pool.memory.cuts_anywhere:
            end = self.history.length(branch.used)
            if branch.length >= end and not self.archive.has(branch.tokens[:end]):
                branch.cut(end)
                self.archive.keep(branch)
        elif states and not self.archive.has(self.store[states[-1].identity].tokens):
            self._go_back(branch, states[-1])
            if branch.length:
                self.archive.keep(branch)

    def _go_back(self, branch: Branch, state: State) -> None:
        """Free the cells of an idle branch past a state."""
        if branch is self.pool.tip:
            self.pool.tip = None
        try:
            branch.restore(self.store[state.identity])
        except StateError:
            self.store.give_up(state.identity, "state-missing")
            self.drop_orphans()

    def _least(self, states: Collection[State]) -> State:
        """The state worth least, the least recently used of those worth the same."""
        return min(states, key=lambda state: (self._worth(state), state.used))

    def _worth(self, state: State) -> float:
        """Tokens that are expected to be evaluated again without it.

        As the planner ranks states of other conversations: returns fade with each prompt that goes elsewhere, and the
        last state of a conversation is where it goes on.
        """
        others = [other for other in self.store.states if other is not state]
        before = max((other.offset for other in others if self._leads_to(other, state)), default=0)
        mass = state.returns
        if state.owner in self.returns:
            mass = self.returns[state.owner].get(state.offset, 0.0)
        if not any(self._leads_to(state, other) for other in others):
            mass += BRANCHES.end
        age = self.history.latest - state.used
        return mass * float(BRANCHES.fading**age) * (state.offset - before)

    def _leads_to(self, one: State, other: State) -> bool:
        """Whether a state is on the path of another one."""
        return one.offset < other.offset and self.history.common(one.owner, other.owner) >= one.offset
