"""From a template and a conversation to a rendering with its spans."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from spanparse.errors import TemplateError, TemplateRefused
from spanparse.families import Family, bos_of, family_of
from spanparse.marks.marked import Marked
from spanparse.marks.origin import GENERATION, NOWHERE, Run
from spanparse.ownership.layout import Layouts
from spanparse.ownership.notes import displaced_messages
from spanparse.ownership.owners import Ownership, assign_owners
from spanparse.ownership.parts import preamble_parts
from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE, Segment, owner_of
from spanparse.ownership.turns import find_turns
from spanparse.proof import common_prefix, lost_messages, misplaced_runs, transfer
from spanparse.rendering.cursor import Limits
from spanparse.rendering.environment import switch_only_adds
from spanparse.rendering.render import DEFAULT_CLOCK, DEFAULT_LIMITS, Request, render_marked, render_plain
from spanparse.rendering.switch import SWITCH
from spanparse.sources import TemplateSource
from spanparse.spans import Barrier, BarrierKind, MessageSpan, Piece, Preamble, Rendering

_new = tuple.__new__
_OWNER: Final = attrgetter("owner")
_LEADING = ("system", "developer")
_BARRIERS: Mapping[str, BarrierKind] = {
    "system": "system_start",
    "developer": "developer_start",
    "user": "user_start",
    "assistant": "assistant_start",
    "tool": "tool_start",
}


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
    reason to trust the template. Raises `TemplateError`, `TemplateRefused` (naming the message) or `TemplateLimit`;
    all renders that a parse takes share the `seconds` of `limits`.
    """
    request = request_of(
        template, messages, tools=tools, kwargs=kwargs, add_generation_prompt=add_generation_prompt, clock=clock
    )
    return parse_request(template, request, limits=limits, verify=verify)


def parse_request(
    template: TemplateSource, request: Request, *, limits: Limits = DEFAULT_LIMITS, verify: bool = True
) -> Rendering:
    """`parse` for a request that is already put together."""
    limits = limits.started()
    text, reason, unmarked = _marked(template, request, limits, verify)
    text = _mark_generation(text, template, request, limits)
    family = family_of(template.text)
    plain = str.__str__(text)
    bos = bos_of(plain, str(request.kwargs.get("bos_token") or ""))
    roles = [str(message.get("role")) for message in request.messages]
    ownership = assign_owners(
        plain, text._runs, roles, family.starts, bos, lambda k: _shown_without(k, plain, template, request, limits)
    )
    doubts = _doubts(text, request, ownership, reason, unmarked)
    return _assemble(plain, request, family, ownership, doubts, bos)


def _marked(
    template: TemplateSource, request: Request, limits: Limits, verify: bool
) -> tuple[Marked, str | None, list[str]]:
    """The plain text with runs that tile it, the reason why they may be wrong, and text that lost its marks."""
    name = template.source
    unmarked: list[str] = []
    try:
        marked = render_marked(template.text, request, name=name, limits=limits, unmarked=unmarked)
    except TemplateRefused as refused:
        try:
            plain = render_plain(template.text, request, name=name, limits=limits)
        except TemplateRefused as error:
            # Only the marked render knows which message the template was at.
            raise TemplateRefused(name, error.reason, refused.message) from error
        whole = Run(0, len(plain), NOWHERE, -1)
        return Marked(plain, (whole,) if plain else ()), "render-differs", []
    if not verify:
        return marked, None, unmarked
    plain = render_plain(template.text, request, name=name, limits=limits)
    if marked == plain:
        return marked, None, unmarked
    return transfer(marked, plain), "render-differs", unmarked


def _shown_without(index: int, text: str, template: TemplateSource, request: Request, limits: Limits) -> int | None:
    """How many characters of `text` a render of the messages before `index` shares with it; None if refused."""
    shorter = replace(request, messages=request.messages[:index], add_generation_prompt=False)
    try:
        return common_prefix(text, render_plain(template.text, shorter, name=template.source, limits=limits))
    except TemplateError:
        return None


def _mark_generation(text: Marked, template: TemplateSource, request: Request, limits: Limits) -> Marked:
    """`text` with the generation prompt's origin on exactly the suffix that `add_generation_prompt` adds."""
    begin = _generation_begin(text, template, request, limits)
    if begin is None:
        return text
    marked = []
    for run in text._runs:
        origin = NOWHERE if run.origin is GENERATION else run.origin
        if run.end <= begin:
            marked.append(run._replace(origin=origin))
        elif run.start >= begin:
            marked.append(run._replace(origin=GENERATION, source=-1))
        else:
            marked.append(Run(run.start, begin, origin, run.source))
            marked.append(Run(begin, run.end, GENERATION, -1))
    return Marked(text, tuple(marked))


def _generation_begin(text: Marked, template: TemplateSource, request: Request, limits: Limits) -> int | None:
    """Where the generation prompt begins, None if the marks say it already.

    They do where the template writes it under an `if add_generation_prompt` and does nothing else with the switch.
    Elsewhere a render without the generation prompt tells; where that is no prefix of the text, because the switch
    rewrites the end as well, the prompt begins with the first text that is written under it behind all messages.
    """
    runs = text._runs
    first = next((i for i, run in enumerate(runs) if run.origin is GENERATION), None)
    if not request.add_generation_prompt:
        # Only a template that turns the switch on by itself writes such text, and the caller's switch adds none of it.
        return None if first is None else len(text)
    if SWITCH not in template.text:
        return None
    if switch_only_adds(template.text) and (first is None or all(run.origin is GENERATION for run in runs[first:])):
        return None
    without = replace(request, add_generation_prompt=False)
    try:
        base = render_plain(template.text, without, name=template.source, limits=limits)
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


@dataclass(frozen=True, slots=True)
class _Doubts:
    """Why spans may be wrong: a reason for all messages, or for some."""

    everywhere: str | None
    messages: Mapping[int, str]


def _doubts(
    text: Marked, request: Request, ownership: Ownership, reason: str | None, unmarked: Sequence[str]
) -> _Doubts:
    found: dict[int, str] = dict.fromkeys(ownership.unclear, "owner-unclear")
    for index in lost_messages(text, request, unmarked):
        found[index] = "origin-lost"
    for run in misplaced_runs(text, request):
        if run.origin.message is not None:
            found[run.origin.message] = "origin-mismatch"
    return _Doubts(reason, found)


def _assemble(
    plain: str, request: Request, family: Family, ownership: Ownership, doubts: _Doubts, bos: str
) -> Rendering:
    segments = ownership.segments
    pieces = [list(piece) for _, piece in groupby(segments, key=_OWNER)]
    owned: dict[int, list[list[Segment]]] = {}
    for piece in pieces:
        owned.setdefault(owner_of(piece), []).append(piece)
    before = [segment for piece in owned.pop(PREAMBLE, ()) for segment in piece]
    generated = owned.pop(GENERATION_PROMPT, None)
    generation = Piece(generated[0][0].start, generated[-1][-1].end) if generated else None
    shown = [piece for piece in pieces if owner_of(piece) >= 0]
    roles = [str(message.get("role")) for message in request.messages]
    turns = find_turns(plain, shown, ownership.starts, roles, plain[generation.start :] if generation else "")
    layouts = Layouts(displaced_messages(list(owned)))
    messages = []
    for index, message in enumerate(request.messages):
        mine = owned.get(index, ())
        parts, notes = layouts.describe(
            index, message, mine, opens_turn=index in turns.opens, closes_turn=index in turns.closes
        )
        if index in turns.merged:
            notes = ("merged", *notes)
        reason = doubts.everywhere or doubts.messages.get(index)
        ranges = tuple([_new(Piece, (piece[0].start, piece[-1].end)) for piece in mine])
        messages.append(MessageSpan(index, roles[index], ranges, parts, reason is None, reason, notes))
    preamble = Preamble(
        before[0].start if before else 0, before[-1].end if before else 0, preamble_parts(before, plain, bos)
    )
    system_end = _system_end(pieces, messages, preamble)
    reason = doubts.everywhere or next((message.reason for message in messages if message.reason), None)
    return Rendering(
        text=plain,
        family=family.name,
        exact=reason is None,
        reason=reason,
        preamble=preamble,
        messages=tuple(messages),
        generation_prompt=generation,
        barriers=_barriers(pieces, roles, system_end),
        system_end=system_end,
        caller_text=_caller_text(segments),
        notes=("tools dropped",) if request.tools and not any(segment.is_tools for segment in segments) else (),
    )


def _system_end(pieces: Sequence[Sequence[Segment]], messages: Sequence[MessageSpan], preamble: Preamble) -> int | None:
    """The later end of the system texts in front of the conversation and of the tools block, wherever that stands."""
    end = None
    for piece in pieces:
        owner = owner_of(piece)
        if owner == PREAMBLE:
            shown = any(part.kind != "bos" for part in preamble.parts)
        else:
            shown = owner >= 0 and messages[owner].role in _LEADING
            if not shown:
                break
        if shown:
            end = piece[-1].end
    ends = [part.end for message in messages for part in message.parts if part.kind == "tools"]
    for message in messages:
        if message.role not in _LEADING:
            break
        ends.append(message.end or 0)
    return max((*ends, end or 0)) or None


def _barriers(pieces: Sequence[Sequence[Segment]], roles: Sequence[str], system_end: int | None) -> tuple[Barrier, ...]:
    barriers = []
    for piece in pieces[1:]:
        offset, owner = piece[0].start, owner_of(piece)
        if owner == GENERATION_PROMPT:
            kind: BarrierKind = "generation_prompt"
        elif owner == PREAMBLE:
            kind = "preamble"
        else:
            kind = _BARRIERS.get(roles[owner], "user_start")
        if offset == system_end:
            kind = "system_end"
        barriers.append(_new(Barrier, (offset, kind, owner if owner >= 0 else None, None)))
    return tuple(barriers)


def _caller_text(segments: Sequence[Segment]) -> tuple[Piece, ...]:
    """Ranges whose characters came from fields other than a role."""
    ranges: list[Piece] = []
    begin = end = -1
    for segment in segments:
        path, literal, _ = segment.origin
        if literal or path[-1] == "role":
            continue
        if segment.start != end:
            if end > begin:
                ranges.append(_new(Piece, (begin, end)))
            begin = segment.start
        end = segment.end
    if end > begin:
        ranges.append(Piece(begin, end))
    return tuple(ranges)
