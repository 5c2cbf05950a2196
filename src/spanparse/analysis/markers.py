"""The text that a template writes around the messages of each role, from the headers and trailers of many probes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from spanparse.analysis.affixes import CONTROL, common_text
from spanparse.analysis.findings import GenerationPrompt, RoleMarkers
from spanparse.analysis.probes import CALLS, KEYS, ONE_USER, ORDINARY, WITH_SYSTEM, anonymous
from spanparse.analysis.trials import Trials
from spanparse.ownership.markers import thought_in
from spanparse.shared import gaps
from spanparse.spans import LEADING_ROLES, MessageSpan, Note, Part, Rendering

ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_FIELDS: Final = frozenset({"content", "tool_result", "reasoning", "media"})
_MOST_VARIANTS: Final = 6
_MERGED: Final = Note("merged")
_ORDINARY: Final = frozenset(probe.shape for probe in ORDINARY)


def role_markers(trials: Trials) -> tuple[RoleMarkers, ...]:
    """The markers of every role that any probe tried so far shows, in the order of `ROLES`."""
    tried = {shape: found for shape, found in trials.tried().items() if isinstance(found, Rendering)}
    shown = {role: _shown(tried, role) for role in ROLES}
    headers = _headers(shown)
    if any(headers["assistant"]):
        prompts = (r.text[slice(*r.generation_prompt)] for r in tried.values() if r.generation_prompt is not None)
        headers["assistant"] += prompts
    markers = []
    for role, spans in shown.items():
        if spans:
            # Developer messages are mostly written as system messages are; everybody else must be told apart.
            twins = LEADING_ROLES if role in LEADING_ROLES else (role,)
            foreign = [text for other, texts in headers.items() if other not in twins for text in texts]
            start = _always_closes(headers[role]) or common_text(headers[role], foreign)
            ends = [edge.text for edge in _edges(spans, "trailer")]
            end = common_text(ends)
            everywhere = ((r, span) for r in tried.values() for span in r.messages if span.role == role)
            companions = sorted({other for rendering, span in everywhere for other in _companions(rendering, span)})
            variants = _variants(headers[role], start), _variants(ends, end)
            joint = _joint(tried.get(CALLS.shape), start) if role == "tool" else None
            markers.append(RoleMarkers(role, start, end, *variants, tuple(companions), _usual(headers[role]), joint))
    return tuple(markers)


def generation_prompt(trials: Trials, assistant: RoleMarkers | None) -> GenerationPrompt | None:
    """What the template ends a conversation with when it is asked to begin an answer."""
    for probe in (ONE_USER, WITH_SYSTEM):
        rendering = trials.accepted(probe)
        if rendering is not None and rendering.generation_prompt is not None:
            text = rendering.text[slice(*rendering.generation_prompt)]
            start = (assistant.start if assistant else None) or ""
            return GenerationPrompt(text, text.removeprefix(start) if text.startswith(start) and start else "")
    return None


def _shown(tried: Mapping[str, Rendering], role: str) -> list[tuple[Rendering, MessageSpan]]:
    """The messages of a role, for most roles from ordinary conversations if they show any.

    What a template writes when an assistant speaks first says little; a system message in an odd place, though, stands
    without the text that templates put before the first one.
    """
    every = [(shape, r, span) for shape, r in tried.items() for span in r.messages if span.role == role and span.pieces]
    ordinary = [(r, span) for shape, r, span in every if shape in _ORDINARY]
    return ordinary if ordinary and role not in LEADING_ROLES else [(r, span) for _, r, span in every]


class _Edge(NamedTuple):
    """A header or trailer; `bos` is the beginning-of-sequence text if it stands right before."""

    text: str
    bos: str = ""


def _headers(shown: Mapping[str, list[tuple[Rendering, MessageSpan]]]) -> dict[str, list[str]]:
    """The headers by role, empty for a message that opens a turn without one or with its reasoning.

    Where every turn begins with the beginning-of-sequence text, it is part of the first header as well.
    """
    edges = {role: list(_edges(spans, "header")) for role, spans in shown.items()}
    every = [edge for found in edges.values() for edge in found]
    bos = next((edge.bos for edge in every if edge.bos), "")
    later = [edge.text for edge in every if not edge.bos and edge.text]
    if bos and sum(text.startswith(bos) for text in later) > len(later) / 2:
        return {role: [edge.bos + edge.text for edge in found] for role, found in edges.items()}
    return {role: [edge.text for edge in found] for role, found in edges.items()}


def _edges(spans: Iterable[tuple[Rendering, MessageSpan]], kind: str) -> Iterator[_Edge]:
    """The headers or trailers of messages that show a text of their own and hold no tool definitions."""
    for rendering, span in spans:
        kinds = [part.kind for part in span.parts]
        if "tools" in kinds or not _FIELDS.intersection(kinds):
            continue
        if kind == "trailer" and "tool_call" in kinds:
            continue
        edge = span.parts[0] if kind == "header" else span.parts[-1]
        if edge.kind == kind and not (kind == "header" and _opens_reasoning(rendering.text, edge)):
            before = rendering.preamble.parts
            first = bool(before) and before[-1].kind == "bos" and before[-1].end == edge.start
            bos = rendering.text[before[-1].start : edge.start] if first else ""
            yield _Edge(anonymous(rendering.text[edge.start : edge.end]), bos)
        elif _MERGED not in span.notes:
            yield _Edge("")


def _opens_reasoning(text: str, header: Part) -> bool:
    """Whether a header is nothing but what reasoning begins with."""
    thought = thought_in(text, header.start, header.end)
    return thought is not None and thought[0] < thought[1] and not text[header.start : thought[0]].strip()


def _always_closes(headers: Sequence[str]) -> str | None:
    """The shortest header, if others have text in front of it, such as settings in the first turn, and nothing else."""
    shortest = min(headers, key=len, default="")
    others = any(text != shortest for text in headers)
    return shortest if shortest.strip() and others and all(text.endswith(shortest) for text in headers) else None


def _variants(texts: Iterable[str], common: str | None) -> tuple[str, ...]:
    known = (common or "").strip()
    others = Counter(text for text in texts if text.strip() and not (known and text.strip().startswith(known)))
    return tuple(text for text, _ in others.most_common(_MOST_VARIANTS))


def _usual(headers: Iterable[str]) -> tuple[str, ...]:
    """The most usual headers that hold nothing of the probes."""
    general = Counter(text for text in headers if text.strip() and not any(key in text for key in KEYS))
    return tuple(text for text, _ in general.most_common(_MOST_VARIANTS))


def control_tokens(renderings: Iterable[Rendering]) -> tuple[str, ...]:
    """What looks like a control token in the template's own text, sorted."""
    found: set[str] = set()
    for rendering in renderings:
        for start, end in gaps(rendering.caller_text, 0, len(rendering.text)):
            found.update(CONTROL.findall(rendering.text, start, end))
    return tuple(sorted(found))


def _companions(rendering: Rendering, span: MessageSpan) -> Iterator[str]:
    """Roles of the messages beside `span` in its turn."""
    if _MERGED not in span.notes:
        return
    ordered = sorted((m for m in rendering.messages if m.pieces), key=lambda m: m.pieces[0].start)
    place = ordered.index(span)
    if place and not _has(span, "header") and _MERGED in ordered[place - 1].notes:
        yield ordered[place - 1].role
    if place + 1 < len(ordered) and not _has(ordered[place + 1], "header") and _MERGED in ordered[place + 1].notes:
        yield ordered[place + 1].role


def _joint(rendering: Rendering | None, start: str | None) -> tuple[str, str] | None:
    """What stands between two tool results in one turn, None if the second has the start marker again."""
    results = [span for span in rendering.messages if span.role == "tool"] if rendering else []
    if rendering is None or len(results) < 2:
        return None
    shown = [next((part for part in span.parts if part.kind == "tool_result"), None) for span in results[:2]]
    if shown[0] is None or shown[1] is None or results[0].end != results[1].start:
        return None
    border = results[1].start
    joint = anonymous(rendering.text[shown[0].end : border]), anonymous(rendering.text[border : shown[1].start])
    return None if start and joint[1].strip().startswith(start.strip()) else joint


def _has(span: MessageSpan, kind: str) -> bool:
    return any(part.kind == kind for part in span.parts)
