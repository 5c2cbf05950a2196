"""From a template and a conversation to a rendering with its spans."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, Final

from spanparse.assembly import Doubts, Marking, assemble
from spanparse.caller import caller_text
from spanparse.errors import TemplateError, TemplateRefused
from spanparse.families import bos_of, family_of
from spanparse.marks.marked import Marked
from spanparse.marks.origin import GENERATION, NOWHERE, Run, path_text
from spanparse.nesting import check_request
from spanparse.ownership.owners import Decision, Parties, assign_owners, decisions
from spanparse.ownership.pieces import Ownership
from spanparse.ownership.probes import profile_of
from spanparse.proof import losses_shown, misplaced_runs, transfer
from spanparse.rendering.cursor import Findings, Limits
from spanparse.rendering.environment import constants_of
from spanparse.rendering.render import DEFAULT_CLOCK, DEFAULT_LIMITS, Request, render_marked, render_plain
from spanparse.rendering.switch import SWITCH
from spanparse.shared import common_prefix
from spanparse.sources import TemplateSource
from spanparse.spans import Piece, Reason, Rendering

_DIFFERS: Final = Reason("render-differs")
_Render = Callable[[Request], str]


def request_of(
    template: TemplateSource,
    messages: list[dict[str, Any]],
    *,
    tools: list[dict[str, Any]] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    add_generation_prompt: bool = True,
    clock: datetime.datetime = DEFAULT_CLOCK,
) -> Request:
    """What the template is given: the source's special tokens, overlaid by the caller's `kwargs`."""
    return Request(messages, tools, {**template.special_tokens, **(kwargs or {})}, add_generation_prompt, clock)


def parse(
    template: TemplateSource,
    messages: list[dict[str, Any]],
    *,
    tools: list[dict[str, Any]] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    add_generation_prompt: bool = True,
    clock: datetime.datetime = DEFAULT_CLOCK,
    limits: Limits = DEFAULT_LIMITS,
    verify: bool = True,
) -> Rendering:
    """Render `messages` and find the span of every message and part.

    `messages` and `tools` are OpenAI-style; `Request` says how a template sees them. `verify` compares the marked
    render with a plain one; without it no check backs the word exact, so a caller that turns it off must have another
    reason to trust the template. Raises `TemplateError`, `TemplateRefused` (naming the message) or `TemplateLimit`, and
    `ConversationError` for what is no list of objects or nested too deeply; all renders that a parse takes share the
    `seconds` of `limits`.
    """
    request = request_of(
        template, messages, tools=tools, kwargs=kwargs, add_generation_prompt=add_generation_prompt, clock=clock
    )
    return parse_request(template, request, limits=limits, verify=verify)


def parse_request(
    template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS, verify: bool = True
) -> Rendering:
    """`parse` for a request that is already put together."""
    said = check_request(request.messages, request.tools, request.kwargs)
    limits = limits.started()
    marked, text, reason, findings, parties = _prepared(template, request, limits, verify)
    plain = str.__str__(text)
    marking = Marking(plain, bos_of(plain, parties.bos), parties.roles, said, bool(request.tools))
    ownership = assign_owners(plain, text._runs, parties)
    outside = findings.outside
    caller = partial(caller_text, plain, marked._runs, outside, parties.roles, partial(constants_of, template.text))
    doubts = _doubts(text, request, ownership, reason, findings)
    return assemble(marking, family_of(template.text), ownership, doubts, caller)


def explain(template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS) -> list[Decision]:
    """Why each stretch of the template's own text in the prompt belongs to whom it does, in text order.

    The rules that say it are `spanparse.ownership.rules.RULES`. Raises what `parse` raises.
    """
    check_request(request.messages, request.tools, request.kwargs)
    _, text, _, _, parties = _prepared(template, request, limits.started(), verify=False)
    return decisions(str.__str__(text), text._runs, parties)


def _prepared(
    template: TemplateSource, request: Request, limits: Limits, verify: bool
) -> tuple[Marked, Marked, Reason | None, Findings, Parties]:
    """What `_marked` gives, the text with the generation prompt's origin after the first, and what the rules ask."""

    def render(other: Request) -> str:
        return render_plain(template.text, other, name=template.source, limits=limits)

    def shown_without(index: int) -> int | None:
        """How many characters of the text a render of the messages before `index` shares with it; None if refused."""
        try:
            shown = render(replace(request, messages=request.messages[:index], add_generation_prompt=False))
        except TemplateError:
            return None
        return common_prefix(str.__str__(text), shown)

    marked, reason, findings = _marked(template, request, limits, verify, render)
    text = _mark_generation(marked, template.text, request, findings, render)
    roles = [str(message.get("role")) for message in request.messages]
    profile = profile_of(template.text, request, limits)
    parties = Parties(roles, profile, str(request.kwargs.get("bos_token") or ""), shown_without)
    return marked, text, reason, findings, parties


def _marked(
    template: TemplateSource, request: Request, limits: Limits, verify: bool, render: _Render
) -> tuple[Marked, Reason | None, Findings]:
    """The plain text with runs that tile it, the reason why they may be wrong, and what else was found."""
    name, special, findings = template.source, template.special_tokens, Findings()
    options: dict[str, Any] = {"limits": limits, "findings": findings, "special_tokens": special}
    try:
        marked = render_marked(template.text, request, name=name, **options)
    except TemplateRefused as refused:
        try:
            plain = render(request)
        except TemplateRefused as error:
            # Only the marked render knows which message the template was at.
            raise TemplateRefused(name, error.reason, refused.message) from error
        whole = Run(0, len(plain), NOWHERE, -1)
        findings = Findings()
        findings.switches = True  # nothing is known of it
        findings.outside.append(Piece(0, len(plain)))
        return Marked(plain, (whole,) if plain else ()), _DIFFERS, findings
    if not verify or marked == (plain := render(request)):
        return marked, None, findings
    marked, findings.outside = transfer(marked, plain, findings.outside)
    return marked, _DIFFERS, findings


def _mark_generation(text: Marked, template: str, request: Request, findings: Findings, render: _Render) -> Marked:
    """`text` with the generation prompt's origin on exactly the suffix that `add_generation_prompt` adds."""
    begin = _generation_begin(text, template, request, findings, render)
    if begin is None:
        return text
    runs = text._runs
    asked = bisect_right(runs, begin, key=lambda run: run.end)
    marked = [run._replace(origin=NOWHERE) if run.origin is GENERATION else run for run in runs[:asked]]
    for run in runs[asked:]:
        if run.start < begin:
            origin = NOWHERE if run.origin is GENERATION else run.origin
            marked.append(Run(run.start, begin, origin, run.source))
        marked.append(Run(max(run.start, begin), run.end, GENERATION, -1))
    return Marked(text, tuple(marked))


def _generation_begin(text: Marked, template: str, request: Request, findings: Findings, render: _Render) -> int | None:
    """Where the generation prompt begins, None if the marks say it already.

    They do where the template wrote it under an `if add_generation_prompt` and asked for the switch nowhere else.
    Elsewhere a render without the generation prompt tells; where that is no prefix of the text, because the switch
    rewrites the end as well, the prompt begins with the first text that is written under it behind all messages.
    """
    runs = text._runs
    first = next((place for place, run in enumerate(runs) if run.origin is GENERATION), None)
    if not request.add_generation_prompt:
        # Only a template that turns the switch on by itself writes such text, and the caller's switch adds none of it.
        return None if first is None else len(text)
    if SWITCH not in template:
        return None
    if not findings.switches and (first is None or all(run.origin is GENERATION for run in runs[first:])):
        return None
    try:
        base = render(replace(request, add_generation_prompt=False))
    except TemplateError:
        return len(text)
    return len(base) if text.startswith(base) else _asked_for(runs)


def _asked_for(runs: Sequence[Run]) -> int:
    """Where the text begins that is written under the switch and followed by no message; the end if there is none."""
    begin = runs[-1].end
    for run in reversed(runs):
        if run.origin is GENERATION:
            begin = run.start
        elif not run.origin.literal or run.origin.message is not None:
            break
    return begin


def _doubts(text: Marked, request: Request, ownership: Ownership, reason: Reason | None, findings: Findings) -> Doubts:
    found = dict.fromkeys(ownership.unclear, Reason("owner-unclear"))

    def owner_at(offset: int) -> int:
        return ownership.begins[bisect_right(ownership.begins, offset, key=itemgetter(0)) - 1].owner

    for index, loss in losses_shown(findings, owner_at).items():
        field = path_text(loss.fields[0].path) if loss.fields else None
        lost = Reason("origin-lost", field, loss.operation)
        if index is None:
            reason = reason or lost
        else:
            found[index] = lost
    for run in misplaced_runs(text, request):
        if run.origin.message is not None:
            found[run.origin.message] = Reason("origin-mismatch")
    return Doubts(reason, found)
