"""From a rendered prompt and an analysis of its template to spans that are a guess."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from spanparse.analysis import Analysis
from spanparse.deferred import Deferred
from spanparse.families import bos_of
from spanparse.ownership.parts import prompt_parts
from spanparse.raw.delimiters import Delimiters, delimiters_of
from spanparse.raw.inside import lookalikes, parts_of
from spanparse.raw.turns import Turn, find_turns
from spanparse.spans import (
    LEADING_ROLES,
    ROLE_STARTS,
    Barrier,
    MessageSpan,
    Note,
    Part,
    Piece,
    Preamble,
    Reason,
    Rendering,
    Spans,
)

REASON: Final = Reason("raw-text")
"""Why no span found in a rendered text is exact."""


def find_spans(text: str, analysis: Analysis) -> Rendering:
    """The messages of a prompt that some template rendered, found by the markers that `analysis` gives.

    Nothing is exact (reason `raw-text`): a text alone does not tell the template's markers from the same characters in
    a message. Messages whose text seems to hold a marker, or that follow each other as messages do not, have a note.
    Sources of parts are unknown. Costs time linear in the text.
    """
    delimiters = delimiters_of(analysis)
    lead = (analysis.bos.text if analysis.bos else "") + (analysis.default_text or "")
    # A system text that is the template's own is no message.
    begin = len(lead) if lead and text.startswith(lead) else len(bos_of(text, ""))
    turns = _joined(find_turns(text, delimiters, begin), text, analysis, delimiters)
    generation = _generation(text, turns, analysis)
    if generation is not None:
        turns = turns[:-1]
    parts = [parts_of(text, turn, analysis) for turn in turns]
    order = _order(turns, [any(part.kind == "tool_call" for part in found) for found in parts], analysis)
    messages = tuple(
        MessageSpan(
            index,
            turn.role,
            (Piece(turn.start, turn.end),),
            parts[index],
            REASON,
            (*order[index], *turn.notes, *lookalikes(text, turn, analysis)),
        )
        for index, turn in enumerate(turns)
    )
    first = turns[0].start if turns else generation.start if generation else len(text)
    system_end = _system_end(messages)
    spans = Spans(
        _preamble(text, first),
        messages,
        _barriers(messages, generation, system_end),
        system_end,
        (),
        tuple(_doubts(turns, delimiters)),
        prompt_parts(text, *generation) if generation else (),
    )
    return Rendering(text, analysis.family, REASON, generation, Deferred.done(spans))


def _joined(turns: list[Turn], text: str, analysis: Analysis, delimiters: Delimiters) -> list[Turn]:
    """The turns, with one that is nothing but reasoning joined to the answer that follows it (Harmony)."""
    found = analysis.reasoning
    start, end = ((found.start or "").strip(), (found.end or "").strip()) if found else ("", "")
    if not start or end not in delimiters.closers.get("assistant", ()):
        return turns
    joined: list[Turn] = []
    for turn in turns:
        last = joined[-1] if joined else None
        if last is not None and last.role == turn.role == "assistant" and start in text[last.start : last.inner]:
            last.close, last.end, last.closed = turn.close, turn.end, turn.closed
            last.notes += turn.notes
        else:
            joined.append(turn)
    return joined


def _generation(text: str, turns: Sequence[Turn], analysis: Analysis) -> Piece | None:
    """The generation prompt: an assistant's turn at the end that holds nothing yet but what is prefilled."""
    if not turns or turns[-1].role != "assistant" or turns[-1].closed:
        return None
    last = turns[-1]
    prompt = analysis.generation_prompt
    expected = prompt is not None and text[last.start :].strip() == prompt.text.strip()
    return Piece(last.start, last.end) if expected or not text[last.inner : last.end].strip() else None


def _order(turns: Sequence[Turn], calls: Sequence[bool], analysis: Analysis) -> list[list[Note]]:
    """Notes on each message that follows others as messages mostly do not; `calls` says which show a tool call."""
    notes: list[list[Note]] = []
    before, opened, called = "", False, False
    for turn, calling in zip(turns, calls, strict=True):
        found = []
        if turn.role == before and turn.role in ("user", "assistant"):
            found.append(Note("role-again", turn.role))
        if turn.role in LEADING_ROLES and opened:
            found.append(Note("role-late", turn.role))
        if turn.role == "tool" and not called and analysis.tool_calls is not None:
            found.append(Note("no-call"))
        notes.append(found)
        opened = opened or turn.role not in LEADING_ROLES
        called = calling or (called and turn.role == "tool")
        before = turn.role
    return notes


def _doubts(turns: Sequence[Turn], delimiters: Delimiters) -> list[Note]:
    if not turns:
        return [Note("no-marker")]
    open_roles = sorted({turn.role for turn in turns} - delimiters.closers.keys())
    return [Note("no-end", role) for role in open_roles]


def _preamble(text: str, end: int) -> Preamble:
    bos = bos_of(text[:end], "")
    parts = [Part("bos", 0, len(bos))] if bos else []
    if end > len(bos):
        parts.append(Part("default_text", len(bos), end))
    return Preamble(0, end, tuple(parts))


def _system_end(messages: Sequence[MessageSpan]) -> int | None:
    leading = list(takewhile(lambda message: message.role in LEADING_ROLES, messages))
    return leading[-1].end if leading else None


def _barriers(messages: Sequence[MessageSpan], generation: Piece | None, system_end: int | None) -> tuple[Barrier, ...]:
    found = [Barrier(m.pieces[0].start, ROLE_STARTS[m.role], m.index) for m in messages]
    if generation is not None:
        found.append(Barrier(generation.start, "generation_prompt", None))
    return tuple(b._replace(kind="system_end") if b.offset == system_end else b for b in found if b.offset)
