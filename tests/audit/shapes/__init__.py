"""The conversations of the audit: every way in which messages, tools and odd texts come together.

A shape is built anew for each template, since some quote the template's own text. Words are unique to their field
unless the shape says otherwise, and the same each time.
"""

from __future__ import annotations

# Imported for the shapes that they register.
from tests.audit.shapes import basics, calls, texts  # noqa: F401
from tests.audit.shapes.building import SHAPES, Conversation
from tests.audit.shapes.long import LONG, long_conversation
from tests.audit.vocabulary import Words

__all__ = ["LONG", "SHAPES", "Conversation", "conversation"]


def conversation(shape: str, template: str) -> Conversation:
    """The conversation of a shape, `LONG` among them, for a template."""
    return long_conversation() if shape == LONG else SHAPES[shape](Words(), template)
