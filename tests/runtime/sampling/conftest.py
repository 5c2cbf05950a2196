"""A branch that is ready to be continued."""

from __future__ import annotations

import pytest

from runtime.memory import probe
from runtime.tree.branch import Branch


@pytest.fixture
def branch(context, tokens):
    """A branch that has just evaluated a prompt of 50 tokens."""
    made = context("hybrid")
    branch = Branch(made, probe(made), b"")
    branch.evaluate(tokens(1, 50), logits=True)
    return branch
