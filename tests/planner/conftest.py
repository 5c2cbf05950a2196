"""A memory that is a line of tokens, driven by plans: the rules of a runtime, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings

from planner import Budget, Candidate, Eviction, Existing, Plan, PlanRequest, plan

# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

Prompt = tuple[tuple[int, ...], tuple[Candidate, ...]]


def shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Number of leading tokens that are the same."""
    limit = min(len(left), len(right))
    return next((i for i in range(limit) if left[i] != right[i]), limit)


@dataclass
class Conversation:
    """Builds prompts message by message, in numbers that stand for tokens.

    The generation prompt is an assistant header and one token, -99, that only reasoning puts into history.
    """

    header: int = 3
    generation_prompt: int = 4
    tokens: list[int] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    counter: int = 0

    def add(self, role: str, length: int, *, identity: int | None = None, thinks: bool = False) -> Conversation:
        """Append a message: a header that depends on the role, then tokens that depend on `identity`, `length` in all.

        Without an identity the message is like no other. `thinks`: its reasoning is rendered.
        """
        if self.tokens:
            first_user = role == "user" and all(c.kind != "system_end" for c in self.candidates)
            kind: Any = "system_end" if first_user else f"{role}_start"
            self.candidates.append(Candidate(len(self.tokens), kind))
        self.counter += 1
        start = 10_000 * (self.counter if identity is None else identity)
        opening = [-len(role) - i for i in range(self.header)] + [-99] * thinks
        self.tokens += [*opening, *range(start, start + length - len(opening))]
        return self

    def prompt(self) -> Prompt:
        """The tokens with a generation prompt, and the candidates in them."""
        opening = [-len("assistant") - i for i in range(self.header)]
        tail = opening + [-99] * (self.generation_prompt - self.header)
        return tuple(self.tokens + tail), (*self.candidates, Candidate(len(self.tokens), "generation_prompt"))

    def copy(self) -> Conversation:
        """The same conversation, to go on differently."""
        return replace(self, tokens=list(self.tokens), candidates=list(self.candidates))


@dataclass
class LineMemory:
    """Executes plans, one prompt after the other, and asserts that each can be executed within the budget.

    `evaluated` and `ideal` are sums over all prompts; ideal: what the prompt does not share with any earlier one.
    """

    budget: Budget
    base: PlanRequest = field(default_factory=lambda: PlanRequest(1))
    tokens: tuple[int, ...] = ()
    stored: dict[int, int] = field(default_factory=dict)
    earlier: list[tuple[int, ...]] = field(default_factory=list)
    evaluated: int = 0
    ideal: int = 0

    def run(self, prompt: Prompt, answer: Sequence[int] = ()) -> Plan:
        """Evaluate a prompt by plan, then decode `answer`."""
        tokens, candidates = prompt
        shared = shared_prefix(self.tokens, tokens)
        request = replace(
            self.base,
            prompt_tokens=len(tokens),
            candidates=candidates,
            common_prefix=shared,
            live=len(self.tokens) or None,
            existing=tuple(Existing(offset, self.base.state_bytes, age) for offset, age in self.stored.items()),
            budget=self.budget,
        )
        made = plan(request)
        self._execute(request, made)
        best = max((shared_prefix(old, tokens) for old in self.earlier), default=0)
        self.evaluated += len(tokens) - self.begin(made)
        self.ideal += max(1, len(tokens) - best)
        self.earlier.append(tokens)
        self.tokens = (*tokens, *answer)
        self.stored = {offset: age + 1 for offset, age in self.stored.items()}
        return made

    @staticmethod
    def begin(made: Plan) -> int:
        """Tokens that a plan reuses."""
        return made.restore.offset if made.restore else 0

    def _execute(self, request: PlanRequest, made: Plan) -> None:
        begin = self.begin(made)
        if made.restore and made.restore.source == "checkpoint":
            assert begin in self.stored
        if made.restore and made.restore.source == "live":
            assert begin == len(self.tokens)
        assert begin <= min(request.common_prefix, request.prompt_tokens - 1)
        pending = list(made.evict)
        self._evict(pending, None)
        assert all(offset <= request.common_prefix for offset in self.stored)
        for step in made.steps:
            assert step.begin == begin
            assert begin < step.end or (step is made.steps[0] and step.save)
            begin = step.end
            if step.save:
                self._evict(pending, step.end)
                assert step.end not in self.stored
                self.stored[step.end] = 0
            self.check_budget()
        assert begin == request.prompt_tokens
        assert not pending
        assert tuple(sorted(self.stored)) == made.kept

    def _evict(self, pending: list[Eviction], before: int | None) -> None:
        while pending and pending[0].before == before:
            del self.stored[pending.pop(0).offset]

    def check_budget(self) -> None:
        """Assert that what is stored now is within the budget."""
        assert self.budget.checkpoints is None or len(self.stored) <= self.budget.checkpoints
        assert self.budget.bytes is None or len(self.stored) * self.base.state_bytes <= self.budget.bytes


@pytest.fixture(scope="session")
def new_conversation() -> type[Conversation]:
    return Conversation


@pytest.fixture(scope="session")
def new_memory() -> type[LineMemory]:
    return LineMemory
