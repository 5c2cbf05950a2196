"""A place of a prompt where others part from it, or may: the end of system text or tools, or where some did before."""

from __future__ import annotations

from typing import Literal, final

Role = Literal["system_end", "tools_end", "tool_end", "inside"]

WITHIN = 8
"""Tokens that two partings at the same place may be apart: a date or a number may have a first digit in common."""

_HEADER = 4
"""Tokens past the end of system text or tools that prompts have in common all the same."""

_EARLIER = (2, 3, 5)
"""Tokens before the earliest parting so far at which one more is expected, now and then."""


@final
class Place:
    """`prompt` is one that has its tokens, `offset` the earliest of where prompts parted, `met` how often.

    `last`: the request that parted there last, or that first had the place.
    """

    __slots__ = ("last", "met", "offset", "partings", "prompt", "role")

    def __init__(self, prompt: int, offset: int, role: Role, last: int, *, met: int = 0) -> None:
        self.prompt, self.offset, self.role, self.last, self.met = prompt, offset, role, last, met
        self.partings = {offset: 1}

    @property
    def kind(self) -> tuple[str, int]:
        """What it is alike: places of the same kind are met as often."""
        return ("parted", min(self.met, 4)) if self.met else (self.role, 0)

    def is_met(self, parted: int, common: int) -> bool:
        """Whether a prompt parts there after `parted` tokens, which has `common` tokens of its prompt."""
        if common < min(parted, self.offset):
            return False
        if self.met:
            return parted - self.offset >= -WITHIN and parted - max(self.partings) <= WITHIN
        return 0 <= parted - self.offset <= _HEADER

    def share(self, parted: int) -> float:
        """How probable just that offset is, of prompts that part there."""
        total = sum(self.partings.values())
        return (self.partings.get(parted, 0) + 0.2) / (total + 0.2)

    def meet(self, prompt: int, parted: int, now: int) -> None:
        """A prompt parted there."""
        if not self.met:
            self.partings = {}
        self.met += 1
        self.last, self.prompt = now, prompt
        self.partings[parted] = self.partings.get(parted, 0) + 1
        self.offset = min(self.partings)

    def offsets(self) -> list[tuple[int, float]]:
        """Where the next prompt parts, if it does there, and how probably."""
        if not self.met:
            return [(self.offset, 1.0)]
        total = sum(self.partings.values()) + 1
        before = [(max(1, self.offset - early), 1 / len(_EARLIER) / total) for early in _EARLIER]
        return before + [(offset, count / total) for offset, count in self.partings.items()]
