"""Which prefix of a rendering survives when the conversation goes on."""

from __future__ import annotations

from dataclasses import replace

from spanparse.deferred import Deferred
from spanparse.errors import TemplateRefused
from spanparse.prediction.continuation import appends, continuations, second_answer, two_turns
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import DEFAULT_LIMITS, Request, render_plain
from spanparse.shared import common_prefix
from spanparse.sources import TemplateSource
from spanparse.spans import Rendering


def with_stability(
    rendering: Rendering, template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS
) -> Rendering:
    """`rendering` with `stable` filled in for each barrier.

    A barrier is stable if its prefix is the same in every continuation that the template renders; it stays None where
    the template refuses them all. `Barrier` says what may be appended. Costs one plain render for each continuation.
    """
    kept = stable_prefix(rendering.text, template, request, limits=limits)
    if kept is None:
        return rendering
    barriers = tuple(barrier._replace(stable=barrier.offset <= kept) for barrier in rendering.barriers)
    return replace(rendering, spans=Deferred.done(replace(rendering.spans.value, barriers=barriers)))


def stable_prefix(
    text: str, template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS
) -> int | None:
    """How many characters of `text` all renderable continuations of `request` keep; None if none renders.

    The continuations are those of `prediction.continuations` that append messages, and two further user turns
    (templates drop earlier reasoning at a new one); where an answer stands last, also another one (templates may leave
    its turn open for that). None of them brings a system message. All renders share the `seconds` of `limits`.
    """
    limits = limits.started()
    appending = [c.messages for c in continuations(request.messages, request.tools) if appends(c.name)]
    kept: int | None = None
    appending += filter(None, (two_turns(request.messages), second_answer(request.messages)))
    for messages in appending:
        try:
            following = render_plain(
                template.text, replace(request, messages=messages), name=template.source, limits=limits
            )
        except TemplateRefused:
            continue
        shared = common_prefix(text, following)
        kept = shared if kept is None else min(kept, shared)
    return kept
