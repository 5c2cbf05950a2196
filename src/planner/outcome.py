"""What planning gives: a `Plan` and its pieces. Offsets count tokens of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from planner.memory import MemoryKind
from planner.offsets import Kind
from planner.request import PolicyName


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
class Comparison:
    """What else could be done with a plan's prompt, and what the next prompt is then expected to evaluate again.

    optimal_replay_tokens, optimal_replay_seconds: the least of any set of checkpoints that the budget allows, whatever
        saving costs; the two may be those of different sets, since a restore takes time.
    baselines, baseline_seconds: those of every other policy, from the same start.
    """

    optimal_replay_tokens: float
    optimal_replay_seconds: float
    baselines: Mapping[str, float]
    baseline_seconds: Mapping[str, float]


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
    expected_returns: for each of `kept`, how many prompts to come are expected to start from it, should none be saved
        after it.
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
    expected_returns: tuple[float, ...] = ()

    @property
    def returns(self) -> Mapping[int, float]:
        """`expected_returns` by the offsets."""
        return dict(zip(self.kept, self.expected_returns, strict=True)) if self.expected_returns else {}

    @property
    def breaks(self) -> int:
        """Batch boundaries that the plan forces inside the prompt."""
        return sum(step.begin < step.end < self.prompt_tokens for step in self.steps)

    @property
    def saves(self) -> tuple[int, ...]:
        """Offsets of the states that the plan saves, in order."""
        return tuple(step.end for step in self.steps if step.save)

    def explain(self, comparison: Comparison | None = None) -> str:
        """The plan in words, one line for each thing to do, in order, then what it is expected to be worth.

        `comparison`: that of the plan, to be told as well.
        """
        evaluated = sum(step.end - step.begin for step in self.steps)
        lines = [
            f"{self.prompt_tokens:,} tokens on {self.memory} memory, policy {self.policy}: evaluate {evaluated:,}, "
            f"{self.breaks} breaks and {len(self.saves)} saves ({self.overhead_seconds:.3f} s)"
        ]
        if self.restore:
            lines.append(f"restore  {self.restore.offset:>9,}  {self.restore.source}: {self.restore.why}")
        else:
            lines.append("start            0  nothing is shared with a state that is left")
        lines += [
            f"evict    {eviction.offset:>9,}  {eviction.reason}" for eviction in self.evict if eviction.before is None
        ]
        for step in self.steps:
            lines += [
                f"evict    {eviction.offset:>9,}  {eviction.reason}"
                for eviction in self.evict
                if eviction.before == step.end
            ]
            what = "save" if step.save else "break" if step.end < self.prompt_tokens else "end"
            lines.append(f"{what:<8} {step.end:>9,}  {step.kind}: {step.reason}")
        expected = f"{self.expected_replay_tokens:,.1f} tokens ({self.expected_replay_seconds:.3f} s)"
        lines.append(f"expected replay {expected} unless the next prompt extends this one")
        if comparison is not None:
            lines[-1] += f"; at best {comparison.optimal_replay_tokens:,.1f}"
            lines[-1] += f" ({comparison.optimal_replay_seconds:.3f} s)"
            others = sorted(comparison.baselines.items(), key=lambda item: (item[1], item[0]))
            lines.append("instead: " + ", ".join(f"{name} {tokens:,.1f}" for name, tokens in others))
        return "\n".join(lines)
