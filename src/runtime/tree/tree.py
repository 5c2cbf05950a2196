"""The prefix tree of what was evaluated: branches that share cells, and saved states of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import final

from planner import Budget, Costs, Divergence, Existing, Plan, Planner, PlanRequest, PolicyName, Restore, States
from planner.policies.registry import REGISTRY
from planner.restoring import restore_of
from runtime.errors import ContextFull, StateError
from runtime.llama import Context
from runtime.memory import Memory
from runtime.prefix import Shared
from runtime.prompt import Prompt
from runtime.report import Clock, Refused, Report, Reuse
from runtime.store.record import Logits
from runtime.tree.archive import Archive, Held, Loaded
from runtime.tree.branch import Branch, most_at_once
from runtime.tree.checkpoint import CheckpointStore
from runtime.tree.history import PromptHistory
from runtime.tree.job import Job
from runtime.tree.pool import Pool
from runtime.tree.retention import Retention
from runtime.tree.room import Room


@final
class Tree:
    """All that an engine has evaluated and still holds, and the requests in evaluation (`jobs`).

    A prompt goes on from the best state anywhere in it. Where it parts from a branch that something else needs, that
    branch is left as it is and a copy goes on, which shares its cells. `store` and `budget` hold for the whole tree.
    An `archive` has full states beside that, of ends of prompts and of what had to give way, within its own budgets.
    Not for use by several threads at once.
    """

    def __init__(
        self,
        context: Context,
        memory: Memory,
        fingerprint: bytes,
        *,
        policy: PolicyName,
        budget: Budget,
        archive: Archive | None = None,
    ) -> None:
        self.context = context
        self.memory = memory
        self.policy = policy
        self.budget = budget
        self.archive = archive
        self.n_batch = most_at_once(context, memory)
        self.jobs: list[Job] = []
        self._fingerprint = fingerprint
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.history = PromptHistory()
        self.pool = Pool(self.context, self.memory, self._fingerprint, reserve=self.archive is not None)
        self.store = CheckpointStore(States(self.history.common), self.budget)
        self._retention = Retention(self.pool, self.store, self.history, self.archive)
        self.room = Room(self.pool, self._retention, self.jobs)
        # Leading tokens of each prompt that another process evaluated.
        self._foreign: dict[int, int] = {}
        self._planner = Planner()

    def begin(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        clock: Clock,
        timeout: float | None = None,
        costs: Costs | None = None,
        session: str = "",
    ) -> Job | None:
        """Plan a request, make room for it and its answer, and go to the state that it starts from.

        `timeout`, `costs` (the defaults where None) are those of `PlanRequest`, `session` whose divergences are
        learned from together. None if that has to wait until a job ends, because of the room that those in evaluation
        take. Raises `ContextFull` if the prompt fits no context of this size, and `planner.PlanRequestError`.
        """
        n = prompt.tokens.size
        if n > self.context.n_ctx:
            raise ContextFull(n, self.context.n_ctx)
        # The last token of an answer is not evaluated, since nothing needs what comes after it.
        room = min(n + max(max_tokens - 1, 0), self.context.n_ctx)
        if not self.room.suffices_for(room):
            return None
        request = self._plan_request(prompt, timeout, costs)
        shared = self.history.shared(prompt.tokens)
        number = self.history.add(prompt.tokens)
        self._observe(prompt, shared, session)
        job = self._start(prompt, number, shared, request, session, room, clock)
        self.room.make()
        self.room.make_windows(self.context.n_ubatch if prompt.media else None)
        if job.plan.steps and job.plan.steps[0].begin == job.plan.steps[0].end:
            job.save()
        self._forget()
        return job

    def reset(self) -> None:
        """Forget everything evaluated, saved and learned; the archive stays.

        Raises ValueError while requests are in evaluation.
        """
        if self.jobs:
            raise ValueError("requests are in evaluation")
        self.context.clear()
        self._begin_anew()

    def save(self, job: Job) -> bool:
        """Keep the state at which a job is; whether that took a copy.

        Room is made as its plan says, then by what is worth least but for the last state on the path of any job; a
        state that has no room all the same is left out.
        """
        branch, store = job.branch, self.store
        offset, size = branch.length, branch.state_size
        store.drop(store.states.make_room(job.plan, job.number, offset))
        self._retention.prune()
        if any(state.offset == offset and branch.holds(store[state.identity]) for state in store.states):
            return False
        while not store.fits(size):
            if not self._retention.free_state():
                store.states.miss(job.number, offset, "budget")
                return False
        entry = store.states.save(job.number, offset, size)
        assert entry is not None, "the books know of a state that is not there"
        store.add(entry, branch.save)
        return True

    def recover(self, job: Job) -> None:
        """Bring the branch of a job whose decode failed back to the longest state of it that is known."""
        branch, store = job.branch, self.store
        while not branch.settled:
            held = [state for state in store.states if branch.holds(store[state.identity])]
            if branch.can_cut(branch.length):
                branch.cut(branch.length)
            elif held:
                last = max(held, key=lambda state: state.offset)
                try:
                    branch.restore(store[last.identity])
                except StateError:
                    store.give_up(last.identity, "state-missing")
            else:
                branch.clear()
        self._retention.drop_orphans()

    def end(self, job: Job, evaluated: int) -> int:
        """A job is over, which evaluated so many tokens of its prompt: its branch becomes the tip. What states hold."""
        self.jobs.remove(job)
        returns = self._retention.returns.pop(job.number)
        self.history.mark_evaluated(job.prompt.tokens[:evaluated])
        self.store.states.settle(job.number, returns)
        self.pool.busy.discard(job.branch)
        self.pool.tip = job.branch if job.branch.length else None
        self._retention.prune()
        return self.store.bytes

    def observe(self, report: Report) -> None:
        """Learn from the account of a job that is over."""
        if self.archive is not None:
            self.archive.observe(report)

    def hold(self, job: Job, logits: Logits, *, moves_on: bool) -> None:
        """A job is at the end of its prompt, which `logits` follow: take what `put_away` needs of this moment."""
        if self.archive is not None:
            job.held = self.archive.hold(job.branch, logits) if moves_on else Held(logits)

    def put_away(self, job: Job) -> None:
        """Store the end of the prompt of a job that is over, or where it was cut off; the next call after `finish`.

        And the last state before, for a template may write the end of a prompt otherwise when the answer is there. It
        takes time for which nobody should wait: the client has its answer before.
        """
        if self.archive is not None:
            held, job.held = job.held, None
            self.archive.put_away(job.branch, job.prompt.tokens.size, held, self._retention.scratch)
            offset, before = self._last_before_end(job)
            if offset:
                self.archive.put_away(job.branch, offset, before, self._retention.scratch)

    def _last_before_end(self, job: Job) -> tuple[int, Held]:
        """The last place before the end of a job's prompt that its branch can be taken back to, 0 if none."""
        n = job.prompt.tokens.size
        if self.memory.cuts_anywhere:
            return max((c.offset for c in job.prompt.candidates if c.offset < n), default=0), Held()
        held = [self.store[state.identity] for state in self.store.states if state.offset < n]
        last = max((c for c in held if job.branch.holds(c)), key=lambda c: c.offset, default=None)
        return (0, Held()) if last is None else (last.offset, Held(None, last))

    def relieve(self) -> bool:
        """Drop all that is idle, as the last resort of a memory without room; whether that was anything."""
        idle = self.pool.idle()
        for branch in idle:
            self._retention.lose_past(branch, 0)
            self.pool.drop(branch)
        return bool(idle)

    def check_integrity(self) -> None:
        """Raise AssertionError unless books, states, branches and llama.cpp's memory agree. Between decodes."""
        self.pool.check_integrity()
        self.store.check_integrity()
        assert self.pool.busy == {job.branch for job in self.jobs}, "a branch is busy without a job"
        assert self.pool.tip is None or self.pool.tip in list(self.pool), "the tip is gone"
        assert self.pool.tip not in self.pool.busy, "the tip is busy"
        if self.memory.has_cells:
            assert all(self._retention.holders().values()), "the cells of a state are gone"
        assert not self.room.missing(), "more cells were promised than there are"
        if self.archive is not None:
            self.archive.check_integrity([job.held for job in self.jobs if job.held is not None])
        for job in self.jobs:
            assert job.branch.common(job.known) == job.branch.length, "a branch has tokens of another request"

    def _forget(self) -> None:
        """Keep the history within its bounds; what is kept and what is evaluated needs its prompts."""
        jobs, branches = {job.number for job in self.jobs}, {branch.used for branch in self.pool}
        if self.history.forget(self.store.states.owners | jobs | branches):
            self.store.states.forget_losses(self.history.numbers)
            self._foreign = {number: self._foreign[number] for number in self._foreign.keys() & self.history.numbers}

    def _plan_request(self, prompt: Prompt, timeout: float | None, costs: Costs | None) -> PlanRequest:
        return PlanRequest(
            prompt_tokens=prompt.tokens.size,
            candidates=prompt.candidates,
            memory=self.memory.kind,
            budget=self.budget,
            state_bytes=self.memory.state_bytes,
            forbidden=tuple((chunk.begin, chunk.end) for chunk in prompt.media),
            costs=costs or Costs(),
            n_batch=self.n_batch,
            n_ubatch=self.context.n_ubatch,
            timeout=timeout,
            policy=self.policy,
        )

    def _observe(self, prompt: Prompt, shared: Shared, session: str) -> None:
        if shared.nearest is not None and shared.prompted < (length := self.history.length(shared.nearest)):
            offset, candidates = shared.prompted, prompt.candidates
            self._planner.observe(Divergence.of(offset, length, candidates, session=session, tools=prompt.tools))

    def _start(
        self, prompt: Prompt, number: int, shared: Shared, request: PlanRequest, session: str, room: int, clock: Clock
    ) -> Job:
        """Plan, and be where the plan begins. A state that proves unusable is given up and planned around."""
        states, branches = self.store.states, REGISTRY[self.policy].knows_branches
        loaded = refused = None
        if self.archive is not None:
            with clock.phase("restore"):
                seen = states.seen_from(number, branches=branches)
                loaded, refused = self._load(self.archive, self._as_seen(request, prompt, shared, seen), prompt)
        while True:
            seen = states.seen_from(number, branches=branches)
            lost = states.lost(number)
            with clock.phase("plan"):
                request = self._as_seen(request, prompt, shared, seen)
                if loaded is not None:
                    length = loaded.branch.length
                    request = replace(request, common_prefix=max(request.common_prefix, length), live=length)
                plan = self._plan(request, prompt, session)
            with clock.phase("restore"):
                try:
                    branch = loaded.branch if loaded else self._branch_at(plan.restore, prompt)
                    break
                except StateError:
                    self._retention.drop_orphans()
                    self._retention.prune()
        foreign = self._foreign.get(shared.nearest, 0) if shared.nearest is not None else 0
        self._foreign[number] = branch.length if loaded and loaded.foreign else min(foreign, branch.length)
        reuse = Reuse(prompt.tokens.size, shared, branch.length, lost, prompt.media, foreign)
        spared = self._retention.ways_back()
        plan = replace(plan, evict=tuple(e for e in plan.evict if e.identity not in spared))
        job = Job(self, number, prompt, plan, branch, reuse, room, clock, loaded, refused)
        branch.used = number
        self.jobs.append(job)
        self.pool.busy.add(branch)
        known = {existing.offset: existing.returns for existing in seen.values() if not existing.beside}
        self._retention.returns[number] = plan.returns if plan.steps else known
        others = states.seen_from(number, branches=True)
        kept = seen | {identity: others[identity] for identity in spared & others.keys()}
        self.store.drop(states.begin(plan, number, kept))
        self._retention.prune()
        return job

    def _load(self, archive: Archive, request: PlanRequest, prompt: Prompt) -> tuple[Loaded | None, Refused | None]:
        """The state in the archive that a prompt goes on from, if that is better than what the tree has."""
        restore, loaded = restore_of(request), None
        begin = restore.offset if restore else 0
        matches, refusal = archive.find(prompt.tokens, begin)
        for match in matches:
            self.room.make(match.n_tokens)
            self.room.make_windows(min(match.n_tokens, self.memory.window))
            branch = self._new_branch()
            loaded = archive.load(match, prompt, branch)
            if loaded is not None:
                begin = loaded.branch.length
                break
            self.pool.drop(branch)
        if refusal is None or refusal.n_tokens <= begin:
            return loaded, None
        return loaded, Refused(*refusal)

    def _plan(self, request: PlanRequest, prompt: Prompt, session: str) -> Plan:
        """What the planner says; nothing is to be done if the live state is that of the whole prompt, with logits."""
        n = prompt.tokens.size
        if request.live != n:
            return self._planner.plan(request, session=session, tools=prompt.tools)
        kept = tuple(sorted(existing.offset for existing in request.existing if not existing.beside))
        why = "all of the prompt is stored, and the logits after it"
        return Plan(request.policy, request.memory, n, Restore(n, why, "live"), (), (), kept, 0.0, 0.0)

    def _as_seen(
        self, request: PlanRequest, prompt: Prompt, shared: Shared, seen: Mapping[str, Existing]
    ) -> PlanRequest:
        """The request with what the tree holds of its prompt."""
        if self.memory.cuts_anywhere:
            common = max((branch.common(prompt.tokens) for branch in self.pool), default=0)
            return replace(request, common_prefix=prompt.whole(common))
        live = self._live(prompt)
        common = max(shared.prompted, live or 0)
        return replace(request, common_prefix=common, live=live, existing=tuple(seen.values()))

    def _live(self, prompt: Prompt) -> int | None:
        """How many tokens of the tip a prompt can go on from; a window can be cut as long as it lasts."""
        tip = self.pool.tip
        if tip is None:
            return None
        length = prompt.whole(min(tip.common(prompt.tokens), prompt.tokens.size - 1))
        goes_on = length == tip.length or (length > 0 and tip.can_cut(length) and self._is_spare(tip, length))
        return length if goes_on else None

    def _branch_at(self, restore: Restore | None, prompt: Prompt) -> Branch:
        """A branch that holds what a plan restores and can be moved on. Raises `StateError` if it cannot be had."""
        if restore is None or not restore.offset:
            return self._new_branch()
        length = restore.offset
        if restore.source == "checkpoint":
            assert restore.identity is not None, "every state in the books has a name"
            return self._restored(restore.identity, prompt)
        tip = self.pool.tip if restore.source == "live" else None
        branch = self._branch_from(tip or max(self.pool, key=lambda b: b.common(prompt.tokens)), length)
        branch.cut(length)
        return branch

    def _restored(self, identity: str, prompt: Prompt) -> Branch:
        checkpoint = self.store[identity]
        length = checkpoint.offset
        if not self.memory.has_cells:
            branch = self._new_branch()
            branch.assume(checkpoint.tokens, checkpoint.positions)
        else:
            holders = [branch for branch in self.pool if branch.holds(checkpoint)]
            source = next((branch for branch in holders if self._is_spare(branch, length)), holders[0])
            branch = self._branch_from(source, length)
        try:
            branch.restore(checkpoint)
        except StateError:
            self.store.give_up(identity, "state-missing")
            raise
        return branch

    def _branch_from(self, source: Branch, length: int) -> Branch:
        """A branch with at least the first `length` tokens of another one, whose other tokens nobody needs."""
        if not self._is_spare(source, length):
            has_sequence = self.pool.has_free_sequence or self._retention.free_sequence(spared=source)
            if has_sequence and self.room.make_windows(min(length, self.memory.window), spared=source):
                copy = self.pool.new()
                copy.follow(source)
                return copy
            self._retention.lose_past(source, length)
        if source is self.pool.tip:
            self.pool.tip = None
        return source

    def _is_spare(self, branch: Branch, length: int) -> bool:
        """Whether a branch may be cut to `length` tokens and moved on without a loss."""
        if branch in self.pool.busy:
            return False
        if self.memory.cuts_anywhere:
            return branch.length == length
        return all(state.offset <= length for state in self._retention.needing()[branch])

    def _new_branch(self) -> Branch:
        if not self.pool.has_free_sequence:
            self._retention.free_sequence()
        return self.pool.new()
