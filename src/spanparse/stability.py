"""Which prefix of a rendering survives when the conversation goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spanparse.cursor import Limits
from spanparse.errors import TemplateRefused
from spanparse.proof import common_prefix
from spanparse.render import DEFAULT_LIMITS, Message, Request, render_plain
from spanparse.sources import TemplateSource
from spanparse.spans import Rendering


def with_stability(
    rendering: Rendering, template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS
) -> Rendering:
    """`rendering` with `stable` filled in for each barrier.

    A barrier is stable if its prefix is the same in every continuation that the template renders; it stays None where
    the template refuses them all. Costs one plain render for each continuation.
    """
    kept = stable_prefix(rendering.text, template, request, limits=limits)
    if kept is None:
        return rendering
    return replace(rendering, barriers=tuple(replace(b, stable=b.offset <= kept) for b in rendering.barriers))


def stable_prefix(
    text: str, template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS
) -> int | None:
    """How many characters of `text` all renderable continuations of `request` keep; None if none renders.

    The continuations end in each of the ways a chat goes on: an answer with and without reasoning, a tool call with its
    result, a new user message, and two further user turns (templates drop earlier reasoning at a new one).
    """
    kept: int | None = None
    for continuation in _continuations(request.messages):
        longer = replace(request, messages=[*request.messages, *continuation])
        try:
            following = render_plain(template.text, longer, name=template.source, limits=limits)
        except TemplateRefused:
            continue
        shared = common_prefix(text, following)
        kept = shared if kept is None else min(kept, shared)
    return kept


def _continuations(messages: list[Message]) -> list[list[Message]]:
    user: Message = {"role": "user", "content": "Go on."}
    plain: Message = {"role": "assistant", "content": "Done."}
    thinking: Message = {"role": "assistant", "content": "Done.", "reasoning_content": "Let me see."}
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}
    calling: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    result: Message = {"role": "tool", "tool_call_id": "abcdefghi", "name": "look", "content": "Seen."}
    last: dict[str, Any] = messages[-1] if messages else {}
    if last.get("role") == "assistant":
        if last.get("tool_calls"):
            results = [{**result, "tool_call_id": called.get("id", "abcdefghi")} for called in last["tool_calls"]]
            return [results, [*results, plain], [*results, plain, user], [*results, thinking, user, plain, user]]
        return [[user], [user, thinking], [user, plain, user]]
    answers = [[plain], [thinking], [plain, user], [thinking, user, plain, user], [calling, result]]
    return answers if last.get("role") == "user" else [*answers, [user]]
