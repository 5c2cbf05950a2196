"""What must hold for any template and any conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from tests.audit import plain as jinja

from spanparse import (
    Limits,
    MessageSpan,
    Note,
    Part,
    Rendering,
    SpanparseError,
    TemplateError,
    TemplateLimit,
    TemplateSource,
    parse,
)

REASONS: Final = {"render-differs", "owner-unclear", "origin-lost", "origin-mismatch"}
"""Those that docs/inspect.md explains."""

_LONGEST_ERROR: Final = 2_200


def source_of(template: str) -> TemplateSource:
    return TemplateSource("fuzz", template, hashlib.sha256(template.encode()).hexdigest())


def outcome_of(
    template: str,
    conversation: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    kwargs: Mapping[str, Any],
    generation: bool,
    limits: Limits,
) -> Rendering | None:
    """A rendering with all that must hold of it, or None after an error with all that must hold of that.

    Jinja itself is asked only now: what came to its end within limits does so without them.
    """
    found = parsed(template, conversation, tools, kwargs, generation, limits)
    if isinstance(found, TemplateLimit):
        return None
    expected = jinja_s(template, conversation, tools, kwargs, generation)
    if isinstance(found, TemplateError):
        assert expected is None, str(found)
        return None
    assert found.text == expected
    assert len(found.text) <= limits.characters
    check_rendering(found, conversation)
    return found


def parsed(
    template: str,
    conversation: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    kwargs: Mapping[str, Any],
    generation: bool,
    limits: Limits,
) -> Rendering | TemplateError:
    """What `parse` returns or raises; the error is one line of readable length that names the template."""
    try:
        return parse(
            source_of(template),
            conversation,
            tools=tools,
            kwargs=kwargs,
            add_generation_prompt=generation,
            limits=limits,
        )
    except SpanparseError as raised:
        error = raised
    assert isinstance(error, TemplateError)
    said = str(error)
    assert said.startswith("fuzz: ")
    assert error.reason.strip()
    assert "\n" not in said
    assert len(said) < _LONGEST_ERROR
    return error


def jinja_s(
    template: str,
    conversation: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    kwargs: Mapping[str, Any],
    generation: bool,
) -> str | None:
    """The text that Jinja makes, set up as transformers does it; None where it refuses or cannot go on."""
    try:
        return jinja.render(template, conversation, tools, kwargs, generation)
    # A template may read itself for too deeply nested, and this render has less room than the first one had.
    except (jinja.Refused, jinja.jinja2.TemplateError, RecursionError, MemoryError):
        return None


def check_rendering(rendering: Rendering, conversation: list[dict[str, Any]]) -> None:
    assert [(span.index, span.role) for span in rendering.messages] == [
        (index, message["role"]) for index, message in enumerate(conversation)
    ]
    assert rendering.exact == all(span.exact for span in rendering.messages)
    for reason in (rendering.reason, *(span.reason for span in rendering.messages)):
        assert reason is None or reason.kind in REASONS
    for span, message in zip(rendering.messages, conversation, strict=True):
        check_message(rendering.text, span, message)
    check_tiling(rendering)
    check_barriers(rendering)


def check_message(text: str, span: MessageSpan, message: dict[str, Any]) -> None:
    """Parts cover the pieces; content that nothing is noted about stands there as the caller wrote it."""
    inside = [(part.start, part.end) for part in span.parts]
    assert inside == sorted(inside)
    assert all(a < b for a, b in inside)
    assert sum(b - a for a, b in inside) == sum(piece.end - piece.start for piece in span.pieces)
    assert all(any(piece.start <= a and b <= piece.end for piece in span.pieces) for a, b in inside)
    for part in span.parts:
        check_children(part)
    content = message.get("content")
    if span.exact and span.pieces and isinstance(content, str) and "content" not in " ".join(map(str, span.notes)):
        shown = "".join(text[part.start : part.end] for part in span.parts if part.source == "content")
        assert shown == content or not content.strip() or Note("dropped") in span.notes


def check_children(part: Part) -> None:
    end = part.start
    for child in part.children:
        assert end <= child.start < child.end <= part.end
        end = child.end
        check_children(child)


def check_tiling(rendering: Rendering) -> None:
    """Pieces, preamble and generation prompt cover the text once."""
    size = len(rendering.text)
    pieces = sorted(piece for message in rendering.messages for piece in message.pieces)
    if rendering.generation_prompt is not None:
        pieces.append(rendering.generation_prompt)
        assert rendering.generation_prompt.end == size
    assert all(piece.start < piece.end <= size for piece in pieces)
    assert all(a.end <= b.start for a, b in pairwise(pieces))
    preamble = rendering.preamble
    assert 0 <= preamble.start <= preamble.end <= size
    starts, ends = [*(piece.start for piece in pieces), size], [0, *(piece.end for piece in pieces)]
    gaps = [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]
    assert all(preamble.start <= begin and end <= preamble.end for begin, end in gaps)
    assert all(a.end <= b.start for a, b in pairwise(rendering.caller_text))


def check_barriers(rendering: Rendering) -> None:
    offsets = [barrier.offset for barrier in rendering.barriers]
    assert offsets == sorted(set(offsets))
    assert all(0 < offset < len(rendering.text) for offset in offsets)
