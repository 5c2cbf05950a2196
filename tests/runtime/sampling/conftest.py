"""A line that is ready to be continued."""

from __future__ import annotations

import pytest

from runtime.line import Line
from runtime.memory import probe


@pytest.fixture
def line(context, tokens):
    """A line that has just evaluated a prompt of 50 tokens."""
    made = context("hybrid")
    line = Line(made, probe(made), b"")
    line.evaluate(tokens(1, 50), logits=True)
    return line
