"""What a request asks the model to continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from planner import Candidate
from runtime.prefix import Tokens


def _nowhere(token: int) -> str | None:
    return None


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids and what is known about them.

    `candidates`: offsets where a state may be saved. `tools`: identifies the tools it was rendered with, None without.
    `where` names the message and field that a token comes from, where that is known.
    """

    tokens: Tokens = field(repr=False)
    candidates: tuple[Candidate, ...] = field(repr=False, default=())
    tools: str | None = None
    where: Callable[[int], str | None] = field(repr=False, default=_nowhere)
