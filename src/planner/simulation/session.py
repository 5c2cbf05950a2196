"""A session: prompts in the order they came, and what any two of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from planner.offsets import Candidate, Likely


@final
class Prompt(NamedTuple):
    """One request.

    `length` in tokens; `candidates` and `likely` as a plan request wants them; `main`: not a sub-agent's; `tools`: the
    same text for the same tools, None if unknown.
    """

    length: int
    candidates: tuple[Candidate, ...] = ()
    main: bool = True
    tools: str | None = None
    likely: tuple[Likely, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Session:
    """Prompts of one client on one memory.

    name: how the trace calls it.
    block: common prefixes are known in multiples of so many tokens.
    least: tokens that a prompt evaluates although an earlier one holds all of it: 1, or 0 where a trace counts so.
    common: how many leading tokens prompts i and j share, i the later one; all of j's if i extends it.
    nearest: which prompt before i shares most with it, None for the first.
    """

    name: str
    prompts: Sequence[Prompt]
    common: Callable[[int, int], int]
    nearest: Callable[[int], int | None]
    block: int = 1
    least: int = 1
