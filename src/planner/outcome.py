"""What planning gives: a `Plan` and its pieces. Offsets count tokens of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, final

from planner.request import POLICIES, Kind, MemoryKind, PolicyName

if TYPE_CHECKING:
    from planner.comparison import Alternatives


@final
@dataclass(frozen=True, slots=True)
class Restore:
    """Where evaluation starts: after `offset` tokens that need not be evaluated again.

    `source`: `live`, the memory goes on from what it holds; `cut`, the memory is cut there; `checkpoint`, the stored
    state of exactly this offset is copied back and the attention cells past it are removed. `identity`: that
    checkpoint's, as the request names it.
    """

    offset: int
    why: str
    source: Literal["live", "cut", "checkpoint"]
    identity: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Step:
    """Tokens [begin, end) to evaluate; the decode that completes them is a batch boundary.

    `save`: store the state after that decode. `kind`: what stands at `end`. The first step may be empty: then the state
    that the evaluation begins with is stored as it is (only `barriers` does that).
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

    `before` is the offset of the save whose room it makes, None if it goes whatever is saved. Deleting each, in the
    plan's order, right before the save it names never exceeds the budget and loses least when a prompt is cancelled.
    Without a timeout all of them existed before, and may as well be deleted after the restore, before the first step.
    """

    offset: int
    reason: str
    before: int | None = None
    identity: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """What to restore, evaluate, save and delete for one prompt, and what that is expected to be worth.

    steps: tile [restored offset, prompt_tokens) in order; at least one token is evaluated.
    evict: only checkpoints that existed before, in order; with a timeout also states that the plan saves on the way,
        each before the next save.
    kept: the offsets stored once the plan has run, in order.
    expected_replay_tokens: tokens the next prompt is expected to evaluate again, should it not simply extend the
        memory, under the prior over where it diverges.
    expected_replay_seconds: the same in seconds, with the restore it takes.
    overhead_seconds: what the breaks and saves of the steps cost.
    alternatives: what else could be done, worked out when it is first asked for.
    """

    policy: PolicyName
    memory: MemoryKind
    prompt_tokens: int
    restore: Restore | None
    steps: tuple[Step, ...]
    evict: tuple[Eviction, ...]
    kept: tuple[int, ...]
    expected_replay_tokens: float
    expected_replay_seconds: float
    overhead_seconds: float = 0.0
    alternatives: Alternatives | None = field(default=None, repr=False, compare=False)

    @property
    def optimal_replay_tokens(self) -> float:
        """The least expected replay of any set of checkpoints that the budget allows, whatever saving costs."""
        return self.alternatives.optimum.tokens if self.alternatives else 0.0

    @property
    def optimal_replay_seconds(self) -> float:
        """The same in seconds; another set may have it, since a restore takes time."""
        return self.alternatives.optimum.seconds if self.alternatives else 0.0

    @property
    def baselines(self) -> Mapping[str, float]:
        """Expected replay tokens of every other policy, from the same start."""
        return {name: self._worth(name)[0] for name in POLICIES if name != self.policy}

    @property
    def baseline_seconds(self) -> Mapping[str, float]:
        """The same in seconds."""
        return {name: self._worth(name)[1] for name in POLICIES if name != self.policy}

    @property
    def returns(self) -> Mapping[int, float]:
        """How many prompts to come are expected to start from each kept checkpoint, should none be saved after it."""
        return self.alternatives.returns(self.kept) if self.alternatives else {}

    def _worth(self, name: PolicyName) -> tuple[float, float]:
        return self.alternatives.baselines[name] if self.alternatives else (0.0, 0.0)

    @property
    def breaks(self) -> int:
        """Batch boundaries that the plan forces inside the prompt."""
        return sum(step.begin < step.end < self.prompt_tokens for step in self.steps)

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
