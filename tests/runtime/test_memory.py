"""The memory kind is found out by trying."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.llama import Stretch
from runtime.memory import Memory, probe


def test_the_probe_tells_the_four_kinds_apart(context, kind):
    assert probe(context(kind)).kind == kind


def test_the_probe_leaves_an_empty_memory(context, kind):
    made = context(kind)
    probe(made)
    assert made.position_range() == (-1, -1)


def test_no_partial_state_is_larger_than_the_probe_says(context, kind, tokens):
    made = context(kind)
    memory = probe(made)
    largest = 0
    for position in range(0, 512, 128):
        made.decode(Stretch(tokens(0, 128), position))
        largest = max(largest, made.state_size())
    if kind == "dense":
        assert memory.state_bytes == 0
    else:
        # An upper bound, but not an idle one: budgets in bytes are counted with it.
        assert largest <= memory.state_bytes <= 1.1 * largest


def test_a_window_as_long_as_the_context_is_as_good_as_dense(context, monkeypatch):
    made = context("swa")
    monkeypatch.setattr(made.model, "n_swa", made.n_ctx)
    assert probe(made).kind == "dense"


@pytest.mark.parametrize(
    ("first", "length", "holds"), [(0, 5, True), (0, 90, True), (61, 70, True), (62, 70, False), (-1, 70, False)]
)
def test_a_window_of_ten_needs_the_nine_tokens_before_the_next_one(first, length, holds):
    assert Memory("swa", 10, 0).holds(first, length) == holds


@pytest.mark.parametrize("kind", ["recurrent", "hybrid", "swa+recurrent"])
def test_a_recurrent_part_never_goes_back_by_itself(kind):
    assert not Memory(kind, 10, 0).holds(0, 5)


def test_a_window_of_unknown_size_never_goes_back_by_itself():
    assert not Memory("swa", 0, 0).holds(0, 5)


def test_what_the_probe_evaluates_does_not_show_in_what_follows(context, kind, tokens):
    prompt = tokens(1, 100)
    logits = []
    for probed in (False, True):
        made = context(kind)
        if probed:
            probe(made)
        made.decode(Stretch(prompt, 0, logits=True))
        logits.append(made.logits())
    assert np.array_equal(*logits)
