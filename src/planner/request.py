"""What a plan is made from. Offsets and lengths count tokens, sizes bytes, durations seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, final, get_args

from planner.errors import PlanRequestError

MemoryKind = Literal["dense", "swa", "recurrent", "hybrid", "swa+recurrent"]
PolicyName = Literal["adaptive", "barriers", "deferred", "every-n", "near-end-pair", "none", "shallow"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
"""Every policy's name."""

Kind = Literal[
    "system_end",
    "system_start",
    "developer_start",
    "user_start",
    "assistant_start",
    "tool_start",
    "generation_prompt",
    "preamble",
    "tools_end",
    "tool_end",
    "media_end",
    "wanted",
    "custom",
    "prompt_end",
    "near_end",
    "stride",
]
"""What an offset is: first spanparse's barriers, named after what begins there (`system_end`: the later end of system
text and tools); then the end of the tools block and of each tool in it, the end of a media part, an offset that a
client declared, and one that the caller knows no more about; last those the planner adds itself: the end of the prompt,
a few tokens before it, a multiple of a step."""

BARRIERS: frozenset[str] = frozenset(get_args(Kind)[:8])
"""The kinds at which one message (or the preamble) ends and the next begins."""


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """An offset, 1 … prompt_tokens, where a state may be saved. Several may share an offset.

    `stable`: the tokens before it stay the same whatever messages are appended; None if nobody knows. `message`: the
    index of the message that begins there, named in reasons.
    """

    offset: int
    kind: Kind = "custom"
    stable: bool | None = None
    message: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Likely:
    """That the next prompt parts from this one after exactly `offset` tokens is expected with probability `weight`.

    From what was seen (`planner.Planner` learns it) or from a prediction of what a template will rewrite.
    """

    offset: int
    weight: float


@final
@dataclass(frozen=True, slots=True)
class Existing:
    """A checkpoint that is stored now: the state after exactly the first `offset` tokens of what the memory holds.

    `bytes` 0 means unknown and counts as `PlanRequest.state_bytes`. `age` counts the requests since it was saved.
    """

    offset: int
    bytes: int = 0
    age: int = 0


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """How many checkpoints, and how many bytes of them, may exist at any moment; None is no limit.

    On a memory that is not dense it counts every recoverable state except the tip, the live state at the end of the
    most recent request. So a checkpoint at the prompt end counts: the tip moves on as the answer is decoded.
    """

    checkpoints: int | None = None
    bytes: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. Measured ones are better; the defaults are of the order of a 30-billion-parameter hybrid on one GPU.

    seconds_per_token: evaluating one prompt token; llama.cpp users report 250 (27B) to 950 (35B-A3B) tokens a second.
    per_break: a forced batch boundary, about one more pass over the weights; 10 s on a pipeline of ten hosts
    (a fork's note on llama.cpp PR 20288), next to nothing on a CPU.
    per_save, per_restore: copying one state out of the memory and back; 0.2 ms (0.4 MB) to 50 ms (190 MiB) are
    reported.
    """

    seconds_per_token: float = 0.002
    per_break: float = 0.01
    per_save: float = 0.002
    per_restore: float = 0.005


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
    forbidden: half-open token ranges [begin, end) of media; a state may be saved at their ends, never inside.
    wanted: offsets that a client declared (a cache marker, a known static part).
    likely: where the next prompt is expected to part from this one, beside what the kinds of the candidates tell.
    block: common prefixes are known, and states of use, at multiples of so many tokens (1: at every token).
    memory: a dense memory can be cut anywhere and needs no checkpoints; the others cannot.
    window: tokens of the sliding window. A memory that is only `swa` can be cut anywhere while the live tokens fit it.
    budget: what may be kept. state_bytes: bytes of one checkpoint, 0 if unknown (then no budget in bytes).
    n_batch, n_ubatch: llama.cpp's batch sizes in tokens.
    policy: the placement policy; `planner.POLICIES` lists them.
    min_step: smallest distance of ordinary user messages that `barriers` saves (llama.cpp's --checkpoint-min-step).
    every_n: the step of `every-n`.

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
    state_bytes: int = 0
    costs: Costs = field(default_factory=Costs)
    n_batch: int = 2048
    n_ubatch: int = 512
    policy: PolicyName = "adaptive"
    min_step: int = 8192
    every_n: int = 8192

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> PlanRequest:
        """Read a request in the form that `planner.json_schema("request")` describes; pydantic is loaded here.

        Raises PlanRequestError, naming the field, if the text is not such a request.
        """
        from planner.schema import read_request

        return read_request(text)

    def allows(self, offset: int) -> bool:
        """Whether a state may be saved at `offset`: inside the prompt, at a block's end and not inside a media part."""
        if not 0 < offset <= self.prompt_tokens or (offset % self.block and offset < self.prompt_tokens):
            return False
        return not any(begin < offset < end for begin, end in self.forbidden)

    def size_of(self, existing: Existing) -> int:
        """Bytes that a stored checkpoint counts for in the budget."""
        return existing.bytes or self.state_bytes


_LONGEST = 2**31 - 1
"""Positions are 32-bit integers in llama.cpp."""

_MOST_PARTS = 2**16
"""Batches, or multiples of `every_n`, in a prompt: a plan goes through them one by one."""


def _check(request: PlanRequest) -> None:
    n = request.prompt_tokens
    _integer("prompt_tokens", n, 1, _LONGEST)
    _integer("common_prefix", request.common_prefix, 0, n)
    _choice("memory", request.memory, get_args(MemoryKind))
    _choice("policy", request.policy, get_args(PolicyName))
    for name in ("n_batch", "n_ubatch", "every_n"):
        _integer(name, getattr(request, name), 1)
        if name != "n_ubatch" and n // getattr(request, name) > _MOST_PARTS:
            raise PlanRequestError(name, f"divides {n} tokens into more than {_MOST_PARTS} parts")
    for name in ("state_bytes", "min_step"):
        _integer(name, getattr(request, name), 0)
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
        if existing.offset in seen:
            raise PlanRequestError(f"existing[{i}].offset", f"{existing.offset} is listed twice")
        seen.add(existing.offset)


def _check_budget(request: PlanRequest) -> None:
    if request.budget.checkpoints is not None:
        _integer("budget.checkpoints", request.budget.checkpoints, 0)
    if request.budget.bytes is not None:
        _integer("budget.bytes", request.budget.bytes, 0)
        if request.state_bytes == 0 and request.memory != "dense":
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
