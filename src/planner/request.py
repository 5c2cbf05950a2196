"""What a plan is made from. Offsets and lengths count tokens, sizes bytes, durations seconds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal, final, get_args

MemoryKind = Literal["dense", "swa", "recurrent", "hybrid", "swa+recurrent"]
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
    "likely",
    "prompt_end",
    "near_end",
    "stride",
]
"""What an offset is: first spanparse's barriers, named after what begins there (`system_end`: the later end of system
text and tools); then the end of the tools block and of each tool in it, the end of a media part, an offset that a
client declared, and one that the caller knows no more about; last those the planner adds itself: one that is
likely, the end of the prompt, a few tokens before it, a multiple of a step."""

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

    `bytes` 0 means unknown and counts as `PlanRequest.state_bytes` says. `age` counts the requests since it was saved.
    `identity` is the caller's own name for it, handed back in `Restore` and `Eviction`. `shared`: how many of its
    tokens the prompt has, None for all. Where that is less than `offset` it belongs to another conversation, kept by a
    memory that holds several; it must have an identity then, and its age counts from its last use. `branch`: the same
    number for states of the same such conversation. `returns`: what `Plan.returns` gave when that was last planned.
    """

    offset: int
    bytes: int = 0
    age: int = 0
    identity: str | None = None
    shared: int | None = None
    branch: int = 0
    returns: float = 0.0

    @property
    def parts_at(self) -> int:
        """Where the prompt parts from it, `offset` if it does not."""
        return self.offset if self.shared is None else min(self.shared, self.offset)

    @property
    def beside(self) -> bool:
        """Whether it belongs to another conversation than the prompt."""
        return self.parts_at < self.offset


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
    (a fork's note on llama.cpp PR 20288), on a processor a part of a tile of attention (`planner.policies.tiles`).
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
        from planner.validation import check

        check(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> PlanRequest:
        """Read a request in the form that `planner.json_schema("request")` describes; pydantic is loaded here.

        Raises PlanRequestError, naming the field, if the text is not such a request.
        """
        from planner.schema import read_request

        return read_request(text)

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
