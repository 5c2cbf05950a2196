"""What stands at the offsets of a prompt, and what is known of them. Offsets count tokens, sizes bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final, get_args

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
