"""The store keeps its budget at every moment and knows what it lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checkpoint import Checkpoint, CheckpointStore, fingerprint
from runtime.errors import StoreFull
from runtime.llama import ContextOptions
from runtime.tiny import write_model


def checkpoint(offset, size=10):
    return Checkpoint(offset, np.zeros(size, dtype=np.uint8), b"", b"", serial=0)


actions = st.lists(st.tuples(st.sampled_from(["add", "drop", "leave"]), st.integers(1, 12), st.integers(0, 40)))


@given(st.none() | st.integers(0, 4), st.none() | st.integers(0, 100), actions)
def test_whatever_is_added_and_dropped_the_budget_is_kept_and_the_books_are_right(count, size, steps):
    store = CheckpointStore(checkpoints=count, bytes=size)
    for action, offset, weight in steps:
        if action == "leave":
            store.leave_line(offset)
        elif action == "drop" and offset in store:
            store.drop(offset, "evicted")
        elif action == "add" and offset not in store:
            fits = store.fits(weight)
            try:
                store.add(checkpoint(offset, weight))
            except StoreFull:
                assert not fits
            else:
                assert fits
        store.check_integrity()


def test_room_is_refused_before_the_bytes_exist():
    store = CheckpointStore(bytes=25)
    store.add(checkpoint(10, 20))
    with pytest.raises(StoreFull, match="checkpoint at 30: no room for 6 bytes"):
        store.reserve(30, 6)
    assert store.lost == {30: "budget"}
    store.reserve(40, 5)


def test_the_nearest_is_the_last_one_at_or_before():
    store = CheckpointStore()
    for offset in (30, 10, 20):
        store.add(checkpoint(offset))
    assert [store.nearest(length) and store.nearest(length).offset for length in (9, 10, 29, 99)] == [None, 10, 20, 30]
    assert [kept.offset for kept in store] == [10, 20, 30]


def test_leaving_the_line_forgets_checkpoints_and_losses_past_it():
    store = CheckpointStore()
    for offset in (10, 20, 30, 40):
        store.add(checkpoint(offset))
    store.drop(10, "evicted")
    store.drop(40, "evicted")
    store.leave_line(20)
    assert [kept.offset for kept in store] == [20]
    assert store.lost == {10: "evicted"}


def test_two_checkpoints_cannot_have_the_same_offset():
    store = CheckpointStore()
    store.add(checkpoint(10))
    with pytest.raises(ValueError, match="at 10 already"):
        store.add(checkpoint(10))


def test_a_store_over_its_budget_does_not_pass_the_integrity_check():
    store = CheckpointStore(checkpoints=1)
    store.add(checkpoint(10))
    store.checkpoints = 0
    with pytest.raises(AssertionError, match="too many checkpoints"):
        store.check_integrity()


def test_the_fingerprint_tells_models_and_state_layouts_apart(tmp_path):
    paths = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for seed, path in enumerate(paths):
        write_model("recurrent", path, seed=seed)
    marks = {fingerprint(path, ContextOptions(exact=exact)) for path in paths for exact in (False, True)}
    assert len(marks) == 4
    assert fingerprint(paths[0], ContextOptions(n_threads=3)) == fingerprint(paths[0], ContextOptions())
