"""The store keeps its budget at every moment, and holds what the books say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import Budget, States
from runtime.llama import ContextOptions
from runtime.tiny import write_model
from runtime.tree.checkpoint import Checkpoint, CheckpointStore, fingerprint


def store_of(checkpoints=None, bytes=None):
    """The store of prompts that share nothing."""
    return CheckpointStore(States(lambda one, other: 0), Budget(checkpoints, bytes))


def keep(store, prompt, offset, size=10):
    """Save a state as callers do, without making room; whether there was room."""
    if not store.fits(size):
        return False
    entry = store.states.save(prompt, offset, size)
    tokens = np.zeros(offset, dtype=np.int32)
    store.add(entry, lambda spare: Checkpoint(tokens, np.zeros(size, np.uint8) if spare is None else spare, b""))
    return True


actions = st.lists(st.tuples(st.booleans(), st.integers(1, 12), st.integers(1, 40)))


@given(st.none() | st.integers(0, 4), st.none() | st.integers(0, 100), actions)
def test_whatever_is_saved_and_given_up_the_budget_is_kept_and_the_books_are_right(count, size, steps):
    store, offsets = store_of(count, size), set()
    for saves, offset, weight in steps:
        if saves and offset not in offsets and keep(store, 0, offset, weight):
            offsets.add(offset)
        elif not saves and offset in offsets:
            store.give_up(f"0:{offset}", "evicted")
            offsets.remove(offset)
        store.check_integrity()
        assert {checkpoint.offset for checkpoint in store} == offsets
        assert len(store) == len(offsets)


def test_the_buffer_of_what_was_given_up_is_used_for_the_next_state_of_its_size():
    store = store_of()
    keep(store, 0, 5, 10)
    buffer = store["0:5"].data
    store.give_up("0:5", "evicted")
    keep(store, 0, 6, 20)
    assert store["0:6"].data is not buffer
    buffer = store["0:6"].data
    store.give_up("0:6", "evicted")
    keep(store, 0, 7, 20)
    assert store["0:7"].data is buffer


def test_a_state_that_cannot_be_saved_is_not_in_the_books():
    store = store_of()

    def fail(spare):
        raise MemoryError

    with pytest.raises(MemoryError):
        store.add(store.states.save(0, 5, 10), fail)
    store.check_integrity()
    assert store.states.lost(0) == {5: "state-missing"}


def test_a_store_over_its_budget_does_not_pass_the_integrity_check():
    store = store_of(1)
    keep(store, 0, 10)
    store.budget = Budget(0)
    with pytest.raises(AssertionError, match="too many checkpoints"):
        store.check_integrity()


def test_a_state_that_the_books_do_not_know_does_not_pass_the_integrity_check():
    store = store_of()
    keep(store, 0, 10)
    store.states.give_up("0:10")
    with pytest.raises(AssertionError, match="books and states differ"):
        store.check_integrity()


def test_the_fingerprint_tells_models_and_state_layouts_apart(tmp_path):
    paths = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for seed, path in enumerate(paths):
        write_model("recurrent", path, seed=seed)
    marks = {fingerprint(path, ContextOptions(exact=exact)) for path in paths for exact in (False, True)}
    assert len(marks) == 4
    assert fingerprint(paths[0], ContextOptions(n_threads=3)) == fingerprint(paths[0], ContextOptions())
