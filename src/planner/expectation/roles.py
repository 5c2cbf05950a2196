"""The offsets of a prompt that matter because of what they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final

from planner.offsets import BARRIERS, Candidate
from planner.request import PlanRequest

TAIL = 16
"""A generation prompt is at most about this many tokens: 3 (ChatML) to 12 (with an empty thought block)."""

NEAR_END = 4
"""Tokens before the prompt's end that stay clear of what a template adds for the answer only (llama.cpp PR 20288)."""


@final
class Roles(NamedTuple):
    """Offsets in tokens, None where the prompt has no such place.

    marked: whether all messages are known, and not only where the first of them, or those of users, begin.
    tool_ends: where the tools of the tools block end, ascending; tools_end: where all of it does.
    system_end: where a new conversation with the same system text and tools parts from this one.
    last_user_start: where it parts when the last user message is edited.
    last_user_end: where it parts when a template drops the reasoning of the turn that a new user message ends; what
        follows it is rendered differently then.
    last_stable: the last offset before the first that is known not to be stable: the same event, as the template tells.
    messages_end: where the answer begins: the start of the generation prompt, or a few tokens before the prompt's end.
    """

    marked: bool
    tool_ends: tuple[int, ...]
    tools_end: int | None
    system_end: int | None
    last_user_start: int | None
    last_user_end: int | None
    last_stable: int | None
    messages_end: int | None


def roles_of(request: PlanRequest) -> Roles:
    """Find the roles among the candidates of `request`."""
    barriers = sorted((c for c in request.candidates if c.kind in BARRIERS), key=lambda c: c.offset)
    system_end = _last(barriers, "system_end")
    # The barrier between system text and the first user message is called system_end; without either it begins at 0.
    user_start = _last(barriers, "user_start") or system_end or 0
    return Roles(
        marked=any(c.kind not in ("system_end", "user_start") for c in barriers),
        tool_ends=tuple(sorted({c.offset for c in request.candidates if c.kind == "tool_end"})),
        tools_end=max((c.offset for c in request.candidates if c.kind == "tools_end"), default=None),
        system_end=system_end,
        last_user_start=user_start or None,
        last_user_end=next((c.offset for c in barriers if c.offset > user_start), None),
        last_stable=_last_stable(barriers),
        messages_end=_messages_end(request, barriers),
    )


def near_end(request: PlanRequest) -> list[int]:
    """Offsets just before the prompt's end, one to four steps from it; a step is a block, or `NEAR_END` tokens where
    every token counts. Only the first of those then, since a generation prompt is not longer."""
    if request.block == 1:
        return [request.prompt_tokens - NEAR_END]
    end = request.prompt_tokens // request.block
    return [i * request.block for i in range(end - 1, max(0, end - 5), -1)]


def _last(barriers: Iterable[Candidate], kind: str) -> int | None:
    return max((c.offset for c in barriers if c.kind == kind), default=None)


def _last_stable(barriers: list[Candidate]) -> int | None:
    unstable = next((i for i, c in enumerate(barriers) if c.stable is False), len(barriers))
    if unstable in (0, len(barriers)):
        return None
    return barriers[unstable - 1].offset


def _messages_end(request: PlanRequest, barriers: list[Candidate]) -> int | None:
    start = _last(barriers, "generation_prompt")
    if start is not None:
        return start
    near = [c.offset for c in request.candidates if 0 < request.prompt_tokens - c.offset <= TAIL]
    if near:
        return max(near)
    shallow = request.prompt_tokens - NEAR_END
    return shallow if request.allows(shallow) else None
