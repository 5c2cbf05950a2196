"""What the next request will keep of the present one's prompt."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spanparse.errors import TemplateLimit, TemplateRefused
from spanparse.parse import parse_request, request_of
from spanparse.prediction.changes import changes, kept_bound, template_text_change
from spanparse.prediction.continuation import NAMES, Continuation, ContinuationName, continuations
from spanparse.prediction.divergence import Places
from spanparse.prediction.hazards import hazards
from spanparse.prediction.outcome import Change, Hazard, Outcome, Prediction, Remedy
from spanparse.prediction.remedies import Lossy, kwarg_remedies, reasoning_remedy
from spanparse.prediction.renderer import Renderer
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import DEFAULT_CLOCK, DEFAULT_LIMITS, Request
from spanparse.shared import common_prefix
from spanparse.sources import TemplateSource
from spanparse.spans import Rendering

if TYPE_CHECKING:
    from spanparse.prediction.counting import TokenCounter
    from spanparse.tokens import Backend, TokenMap


def predict(
    template: TemplateSource,
    messages: list[dict[str, Any]],
    *,
    tools: list[dict[str, Any]] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    add_generation_prompt: bool = True,
    clock: datetime.datetime = DEFAULT_CLOCK,
    limits: Limits = DEFAULT_LIMITS,
    backend: Backend | None = None,
    trust_content: bool = False,
    remedies: bool = True,
) -> Prediction:
    """Render the ways in which `messages` may go on and say what each keeps of their prompt.

    Costs one parse and at most one plain render for each continuation. `remedies` looks for what would keep more and
    for what may change without the conversation's doing, at the price of further plain renders where something is
    lost; `Prediction.renders` counts them all. With a `backend`, tokens are counted as well as characters;
    `trust_content` is that of `token_map`. The parse and all renders share the `seconds` of `limits`. Raises what
    `parse` raises on `messages` themselves, and `TemplateLimit` where a continuation runs past the limits; one that the
    template refuses is an outcome with a reason. Where only the search for remedies runs past them,
    `Prediction.unfinished` says so.
    """
    limits = limits.started()
    request = request_of(
        template, messages, tools=tools, kwargs=kwargs, add_generation_prompt=add_generation_prompt, clock=clock
    )
    return predict_rendering(
        parse_request(template, request, limits=limits),
        template,
        request,
        limits=limits,
        backend=backend,
        trust_content=trust_content,
        remedies=remedies,
    )


def predict_rendering(
    rendering: Rendering,
    template: TemplateSource,
    request: Request,
    *,
    limits: Limits = DEFAULT_LIMITS,
    backend: Backend | None = None,
    tokens: TokenMap | None = None,
    trust_content: bool = False,
    remedies: bool = True,
) -> Prediction:
    """`predict` for a `request` that is already parsed to `rendering`: costs no parse.

    `tokens` is the token map that `backend` made of it with the same `trust_content`; it is made if only the latter is
    given. Tokens stay unknown where the length of media in it is. Raises what `render_plain` raises, but for refusals,
    and what `token_map` raises.
    """
    limits = limits.started()
    counter = None
    if backend is not None:
        from spanparse.prediction.counting import TokenCounter
        from spanparse.tokens import token_map

        if tokens is None:
            tokens = token_map(rendering, backend, template=template.text, trust_content=trust_content)
        if tokens.media_known:
            counter = TokenCounter(tokens, template.text)
    return _Predictor(rendering, Renderer(template, request, limits), counter).prediction(remedies)


_MISSING: Mapping[ContinuationName, str] = {
    "regenerate": "nothing is left of the conversation without its last answer",
    "edit_last_user": "the conversation has no user message",
}


class _Predictor:
    def __init__(self, rendering: Rendering, renderer: Renderer, counter: TokenCounter | None) -> None:
        self._rendering = rendering
        self._text = rendering.text
        self._renderer = renderer
        self._counter = counter
        self._places = Places(rendering, renderer.request)
        self._lossy: list[Lossy] = []

    def prediction(self, remedies: bool) -> Prediction:
        request = self._renderer.request
        possible = {c.name: c for c in continuations(request.messages, request.tools)}
        outcomes = {name: self._outcome(possible[name]) for name in NAMES if name in possible}
        for name in NAMES:
            if name not in possible:
                outcomes[name] = Outcome(name, reason=_MISSING[name])
        found: tuple[Hazard, ...] = ()
        unfinished = None
        if remedies:
            try:
                for name, helps in self._remedies().items():
                    outcomes[name] = replace(outcomes[name], remedies=helps)
                found = hazards(self._renderer, self._places, self._text)
            except TemplateLimit as limit:
                unfinished = limit.reason
        return Prediction(
            prompt_chars=len(self._text),
            prompt_tokens=None if self._counter is None else self._counter.count,
            exact=self._rendering.exact,
            reason=self._rendering.reason,
            continuations=tuple(outcomes[name] for name in NAMES),
            hazards=found,
            renders=self._renderer.count,
            unfinished=unfinished,
        )

    def _outcome(self, continuation: Continuation) -> Outcome:
        text = self._text
        if continuation.messages == self._renderer.request.messages:
            count = None if self._counter is None else self._counter.count
            return Outcome(continuation.name, len(text), 0, count, None if count is None else 0)
        try:
            following = self._renderer.render(continuation.messages)
        except TemplateRefused as refused:
            return Outcome(continuation.name, reason=f"the template refuses it: {refused.reason}")
        kept = common_prefix(text, following)
        found: tuple[Change, ...] = ()
        diverges = None
        if kept < len(text):
            found = changes(self._places, text, following, kept, continuation)
            gone = {(change.message, change.field) for change in found}
            diverges = self._places.divergence(kept, gone)
            if kept < kept_bound(self._places, text, continuation):
                self._lossy.append(Lossy(continuation, following, kept, diverges, found))
                if diverges is not None and (diverges.message, diverges.field) not in gone:
                    chars = self._places.end_of_part(kept) - kept
                    change = template_text_change(diverges.field, diverges.message, chars, continuation)
                    found = (change, *found)
        kept_tokens = None if self._counter is None else self._counter.kept(following, kept)
        lost_tokens = None if self._counter is None or kept_tokens is None else self._counter.count - kept_tokens
        return Outcome(continuation.name, kept, len(text) - kept, kept_tokens, lost_tokens, diverges, found)

    def _remedies(self) -> dict[ContinuationName, tuple[Remedy, ...]]:
        lossy = sorted(self._lossy, key=lambda entry: -len(entry.continuation.messages))
        if not lossy:
            return {}
        found: dict[ContinuationName, tuple[Remedy, ...]] = {}
        for entry, by_kwarg in zip(lossy, kwarg_remedies(self._renderer, self._rendering, lossy), strict=True):
            sending = reasoning_remedy(self._renderer, self._text, entry)
            found[entry.continuation.name] = (*by_kwarg, sending) if sending else tuple(by_kwarg)
        return found
