"""What a plan is made from. Offsets and lengths count tokens, sizes bytes, durations seconds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal, final, get_args

from planner.budget import Budget, Costs
from planner.errors import PlanRequestError
from planner.memory import MemoryKind, needs_states
from planner.offsets import Candidate, Existing, Kind, Likely

PolicyName = Literal[
    "adaptive",
    "barriers",
    "deferred",
    "even",
    "every-n",
    "log-spaced",
    "marconi",
    "near-end-pair",
    "none",
    "shallow",
    "smallest-gap",
    "variance",
]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
"""Every policy's name; what each does stands in `planner.policies.registry`."""

_LONGEST = 2**31 - 1
"""Positions are 32-bit integers in llama.cpp."""

_MOST_PARTS = 2**16
"""Batches, or multiples of `every_n`, in a prompt: a plan goes through them one by one."""


@final
@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One prompt to be evaluated, and what the memory and the store hold before it.

    prompt_tokens: length of the prompt.
    candidates: all offsets of the prompt where saving makes sense, the part that is reused too: roles of old
        checkpoints are recognised by them. Any order.
    common_prefix: tokens that the prompt shares with what the memory holds (for the first request 0). Memory is a
        line: checkpoints past the common prefix are lost.
    live: tokens the memory holds, if it can be continued as it is; it is used when no more than `common_prefix`, or
        when it can be cut (see `window`). None if the memory is empty or its state cannot be trusted.
    existing: the stored checkpoints, each offset once.
    forbidden: half-open token ranges [begin, end) of media; a state may be saved at their ends, never inside. Without a
        candidate of kind `media_end` each of these ends is one.
    wanted: offsets that a client declared (a cache marker, a known static part).
    likely: where the next prompt is expected to part from this one, beside what the kinds of the candidates tell.
    block: common prefixes are known, and states of use, at multiples of so many tokens (1: at every token).
    memory: a dense memory can be cut anywhere and needs no checkpoints; the others cannot.
    window: tokens of the sliding window. A memory that is only `swa` can be cut anywhere while the live tokens fit it.
    budget: what may be kept.
    state_bytes: bytes of one checkpoint, 0 if unknown (then no budget in bytes). Where they depend on the length:
        (tokens, bytes) pairs, ascending; linear between them, the first pair's bytes before, the last pair's after it.
    timeout: seconds after which the client gives up, counted from the start of the evaluation; None for never. With
        one, states are saved on the way, so that the next try goes on from there (see `planner.stride`).
    n_batch, n_ubatch: llama.cpp's batch sizes in tokens.
    policy: the placement policy; `planner.POLICIES` lists them.
    min_step: smallest distance of ordinary user messages that `barriers` saves (llama.cpp's --checkpoint-min-step).
    every_n: the step of `every-n` and the least distance of what `variance` saves between batches.

    Raises PlanRequestError, naming the field, if a value is out of its range.
    """

    prompt_tokens: int
    candidates: tuple[Candidate, ...] = ()
    common_prefix: int = 0
    live: int | None = None
    existing: tuple[Existing, ...] = ()
    forbidden: tuple[tuple[int, int], ...] = ()
    wanted: tuple[int, ...] = ()
    likely: tuple[Likely, ...] = ()
    block: int = 1
    memory: MemoryKind = "hybrid"
    window: int | None = None
    budget: Budget = field(default_factory=lambda: Budget(checkpoints=8))
    state_bytes: int | tuple[tuple[int, int], ...] = 0
    costs: Costs = field(default_factory=Costs)
    n_batch: int = 2048
    n_ubatch: int = 512
    timeout: float | None = None
    policy: PolicyName = "adaptive"
    min_step: int = 8192
    every_n: int = 8192

    def __post_init__(self) -> None:
        _check(self)

    def allows(self, offset: int) -> bool:
        """Whether a state may be saved at `offset`: inside the prompt and not inside a media part."""
        return 0 < offset <= self.prompt_tokens and not any(begin < offset < end for begin, end in self.forbidden)

    def breaks(self, offset: int) -> bool:
        """Whether evaluation would not pause at `offset` anyway, as it does at the end and around media."""
        return offset < self.prompt_tokens and not any(offset in media for media in self.forbidden)

    def price_of(self, offset: int) -> float:
        """Seconds that saving a state at `offset` takes, the pause included."""
        return self.costs.per_save + (self.costs.per_break if self.breaks(offset) else 0.0)

    def size_of(self, existing: Existing) -> int:
        """Bytes that a stored checkpoint counts for in the budget."""
        return existing.bytes or self.bytes_at(existing.offset)

    def bytes_at(self, offset: int) -> int:
        """Bytes of the state after `offset` tokens, by `state_bytes`; rounded up, 0 if unknown."""
        if isinstance(self.state_bytes, int):
            return self.state_bytes
        right = bisect_left(self.state_bytes, (offset, 0))
        if right in (0, len(self.state_bytes)):
            return self.state_bytes[min(right, len(self.state_bytes) - 1)][1]
        (begin, low), (end, high) = self.state_bytes[right - 1], self.state_bytes[right]
        return low - (low - high) * (offset - begin) // (end - begin)


def _check(request: PlanRequest) -> None:
    """Raise PlanRequestError, naming the field, if a value of `request` is out of its range."""
    n = request.prompt_tokens
    _integer("prompt_tokens", n, 1, _LONGEST)
    _integer("common_prefix", request.common_prefix, 0, n)
    _choice("memory", request.memory, get_args(MemoryKind))
    _choice("policy", request.policy, get_args(PolicyName))
    for name in ("n_batch", "n_ubatch", "every_n"):
        _integer(name, getattr(request, name), 1)
        if name != "n_ubatch" and n // getattr(request, name) > _MOST_PARTS:
            raise PlanRequestError(name, f"divides {n} tokens into more than {_MOST_PARTS} parts")
    _integer("min_step", request.min_step, 0)
    _check_state_bytes(request)
    if request.timeout is not None and not 0 < request.timeout < float("inf"):
        raise PlanRequestError("timeout", f"{request.timeout} is not a number of seconds above 0")
    if request.live is not None:
        _integer("live", request.live, 0)
    if request.window is not None:
        _integer("window", request.window, 1)
    for i, candidate in enumerate(request.candidates):
        _integer(f"candidates[{i}].offset", candidate.offset, 1, n)
        _choice(f"candidates[{i}].kind", candidate.kind, get_args(Kind))
    _check_existing(request)
    for i, (begin, end) in enumerate(request.forbidden):
        _integer(f"forbidden[{i}].begin", begin, 0, n)
        _integer(f"forbidden[{i}].end", end, begin, n)
    for i, offset in enumerate(request.wanted):
        _integer(f"wanted[{i}]", offset, 1, n)
    _integer("block", request.block, 1)
    for i, likely in enumerate(request.likely):
        _integer(f"likely[{i}].offset", likely.offset, 0, n)
        if not 0 <= likely.weight <= 1:
            raise PlanRequestError(f"likely[{i}].weight", f"{likely.weight} is not a probability")
    _check_budget(request)
    for name in ("seconds_per_token", "per_break", "per_save", "per_restore"):
        seconds = getattr(request.costs, name)
        if not 0 <= seconds < float("inf"):
            raise PlanRequestError(f"costs.{name}", f"{seconds} is not a number of seconds")
    if request.costs.seconds_per_token == 0:
        raise PlanRequestError("costs.seconds_per_token", "must be above 0: it is what a checkpoint saves")


def _check_existing(request: PlanRequest) -> None:
    seen: set[int] = set()
    for i, existing in enumerate(request.existing):
        _integer(f"existing[{i}].offset", existing.offset, 1)
        _integer(f"existing[{i}].bytes", existing.bytes, 0)
        _integer(f"existing[{i}].age", existing.age, 0)
        _integer(f"existing[{i}].branch", existing.branch, 0)
        if not 0 <= existing.returns < float("inf"):
            raise PlanRequestError(f"existing[{i}].returns", f"{existing.returns} is not a number of returns")
        if existing.shared is not None:
            _integer(f"existing[{i}].shared", existing.shared, 0)
        if existing.beside:
            if existing.identity is None:
                raise PlanRequestError(f"existing[{i}].identity", "a state of another conversation needs one")
            continue
        if existing.offset in seen:
            raise PlanRequestError(f"existing[{i}].offset", f"{existing.offset} is listed twice")
        seen.add(existing.offset)


def _check_state_bytes(request: PlanRequest) -> None:
    if isinstance(request.state_bytes, int):
        _integer("state_bytes", request.state_bytes, 0)
        return
    before = -1
    for i, (tokens, size) in enumerate(request.state_bytes):
        _integer(f"state_bytes[{i}].tokens", tokens, before + 1)
        _integer(f"state_bytes[{i}].bytes", size, 1)
        before = tokens


def _check_budget(request: PlanRequest) -> None:
    if request.budget.checkpoints is not None:
        _integer("budget.checkpoints", request.budget.checkpoints, 0)
    if request.budget.bytes is not None:
        _integer("budget.bytes", request.budget.bytes, 0)
        if request.state_bytes in (0, ()) and needs_states(request.memory):
            raise PlanRequestError("state_bytes", "a budget in bytes needs the bytes of one checkpoint")


def _integer(name: str, value: object, low: int, high: int | None = None) -> None:
    # bool is an int to isinstance, and True as an offset is surely a mistake.
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlanRequestError(name, f"{value!r} is not an integer")
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"in {low} … {high}"
        raise PlanRequestError(name, f"{value} must be {bounds}")


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PlanRequestError(name, f"{value!r} is none of {', '.join(allowed)}")
