"""What planning gives: a `Plan` and its pieces. Offsets count tokens of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from planner.request import Kind, MemoryKind, PolicyName


@final
@dataclass(frozen=True, slots=True)
class Restore:
    """Where evaluation starts: after `offset` tokens that need not be evaluated again.

    `source`: `live`, the memory goes on from what it holds; `cut`, the memory is cut there; `checkpoint`, the stored
    state of exactly this offset is copied back and the attention cells past it are removed.
    """

    offset: int
    why: str
    source: Literal["live", "cut", "checkpoint"]


@final
@dataclass(frozen=True, slots=True)
class Step:
    """Tokens [begin, end) to evaluate; the decode that completes them is a batch boundary.

    `save`: store the state after that decode. `kind`: what stands at `end`.
    """

    begin: int
    end: int
    save: bool
    kind: Kind
    reason: str


@final
@dataclass(frozen=True, slots=True)
class Eviction:
    """A stored checkpoint to delete.

    `before` is the offset of the save whose room it makes, None if it goes whatever is saved. Deleting all of them
    after the restore and before the first step never exceeds the budget; neither does deleting each, in the plan's
    order, right before the save it names, which loses less when a prompt is cancelled.
    """

    offset: int
    reason: str
    before: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """What to restore, evaluate, save and delete for one prompt, and what that is expected to be worth.

    steps: tile [restored offset, prompt_tokens) in order; at least one token is evaluated.
    evict: only checkpoints that existed before, in order.
    kept: the offsets stored once the plan has run, in order.
    expected_replay_tokens: tokens the next prompt is expected to evaluate again, should it not simply extend the
        memory, under the prior over where it diverges.
    optimal_replay_tokens: the same for the best set of checkpoints that the budget allows, whatever saving costs.
    expected_replay_seconds: the first in seconds, with the restore it takes.
    baselines: expected replay tokens of every other policy, from the same start.
    """

    policy: PolicyName
    memory: MemoryKind
    prompt_tokens: int
    restore: Restore | None
    steps: tuple[Step, ...]
    evict: tuple[Eviction, ...]
    kept: tuple[int, ...]
    expected_replay_tokens: float
    optimal_replay_tokens: float
    expected_replay_seconds: float
    baselines: Mapping[str, float]

    @property
    def breaks(self) -> int:
        """Batch boundaries that the plan forces inside the prompt."""
        return len(self.steps) - 1

    @property
    def saves(self) -> tuple[int, ...]:
        """Offsets of the states that the plan saves, in order."""
        return tuple(step.end for step in self.steps if step.save)

    def explain(self) -> str:
        """The plan in words, one line for each thing to do and one for what it is worth."""
        from planner.explanation import explain

        return explain(self)

    def to_json(self) -> str:
        """The plan as `planner.json_schema("plan")` describes it; pydantic is loaded here."""
        from planner.schema import write_plan

        return write_plan(self)
