"""What every rendering has, exact or not: spans that tile the text, parts inside of them, barriers between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tests.audit.oracle.view import GENERATION, PREAMBLE, Fault, View

from spanparse import Part

_REASONS: Final = frozenset({"render-differs", "owner-unclear", "origin-lost", "origin-mismatch"})


def check_structure(view: View) -> list[Fault]:
    """Tiling, parts, barriers, the ranges of the caller's text, and reasons that are known."""
    return [*_tiling(view), *_parts(view), *_barriers(view), *_caller_text(view), *_reasons(view)]


def _tiling(view: View) -> list[Fault]:
    at = 0
    for start, end, _ in view.stretches:
        if start != at or end <= start:
            return [Fault("tiling", None, f"a span [{start}, {end}) follows one that ends at {at}")]
        at = end
    return [] if at == len(view.text) else [Fault("tiling", None, f"spans end at {at} of {len(view.text)}")]


def _parts(view: View) -> list[Fault]:
    found = []
    for message in view.rendering.messages:
        covered = 0
        for part in message.parts:
            inside = any(piece.start <= part.start < part.end <= piece.end for piece in message.pieces)
            if not inside or not _ordered(part.children, part):
                found.append(Fault("parts", message.index, f"{part.kind} [{part.start}, {part.end}) or its children"))
            covered += part.end - part.start
        if covered != sum(piece.end - piece.start for piece in message.pieces):
            found.append(Fault("parts", message.index, "parts do not tile the pieces"))
        if not _ascending(message.parts):
            found.append(Fault("parts", message.index, "parts overlap or are out of order"))
    preamble, prompt = view.rendering.preamble, view.rendering.generation_prompt
    found += _tiled("preamble", preamble.parts, preamble.start, preamble.end)
    found += _tiled("generation prompt", view.rendering.generation_parts, *(prompt or (0, 0)))
    return found


def _tiled(what: str, parts: Sequence[Part], start: int, end: int) -> list[Fault]:
    found = []
    for part in parts:
        if part.start != start or not _ordered(part.children, part):
            found.append(Fault("parts", None, f"{part.kind} of the {what} at {part.start}"))
        start = part.end
    return found if start == end else [*found, Fault("parts", None, f"parts do not tile the {what}")]


def _ascending(parts: Sequence[Part]) -> bool:
    return all(a.end <= b.start for a, b in pairwise(parts))


def _ordered(children: Sequence[Part], parent: Part) -> bool:
    return _ascending(children) and all(parent.start <= c.start < c.end <= parent.end for c in children)


def _barriers(view: View) -> list[Fault]:
    expected = [(start, owner if owner >= 0 else None, owner) for start, _, owner in view.stretches if start > 0]
    have = [(barrier.offset, barrier.message) for barrier in view.rendering.barriers]
    if have != [(offset, message) for offset, message, _ in expected]:
        return [Fault("barriers", None, f"are {have}")]
    special = {GENERATION: "generation_prompt", PREAMBLE: "preamble"}
    for barrier, (_, _, owner) in zip(view.rendering.barriers, expected, strict=True):
        role = "" if owner < 0 else str(view.case.messages[owner]["role"])
        if barrier.kind not in ("system_end", special.get(owner, f"{role}_start")):
            return [Fault("barriers", None, f"{barrier.kind} at {barrier.offset}, where {role or owner} begins")]
    return []


def _caller_text(view: View) -> list[Fault]:
    ranges = view.rendering.caller_text
    fine = all(r.start < r.end for r in ranges) and all(a.end < b.start for a, b in pairwise(ranges))
    return [] if fine else [Fault("caller-text", None, "ranges are not sorted and disjoint")]


def _reasons(view: View) -> list[Fault]:
    rendering = view.rendering
    found = [
        Fault("reason", m.index, f"unknown reason {m.reason}")
        for m in rendering.messages
        if m.reason is not None and m.reason.kind not in _REASONS
    ]
    if rendering.exact != all(message.exact for message in rendering.messages):
        found.append(Fault("reason", None, f"exact={rendering.exact} although its messages say otherwise"))
    return found
