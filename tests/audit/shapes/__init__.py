"""The conversations of the audit: every way in which messages, tools and odd texts come together.

A shape is built anew for each template, since some quote the template's own text. Words are unique to their field
unless the shape says otherwise, and the same each time.
"""

from __future__ import annotations

# Imported for the shapes that they register.
from tests.audit.shapes import basics, calls, texts  # noqa: F401
from tests.audit.shapes.building import SHAPES, Conversation
from tests.audit.shapes.drawn import drawn_conversation, drawn_shapes, is_drawn
from tests.audit.shapes.held_out import HELD_OUT_SHAPES
from tests.audit.shapes.long import LONG, long_conversation
from tests.audit.vocabulary import Words

__all__ = ["HELD_OUT_SHAPES", "LONG", "SHAPES", "Conversation", "conversation", "drawn_shapes", "is_drawn"]


def conversation(shape: str, template: str) -> Conversation:
    """The conversation of a shape for a template: one of `SHAPES` or `HELD_OUT_SHAPES`, `LONG`, or a random one."""
    if shape == LONG:
        return long_conversation()
    if is_drawn(shape):
        return drawn_conversation(shape, template)
    return (SHAPES | HELD_OUT_SHAPES)[shape](Words(), template)
