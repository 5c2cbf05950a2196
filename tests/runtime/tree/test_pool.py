"""Sequences are given out once, and shared cells are counted once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.llama import ContextOptions
from runtime.memory import Memory, probe
from runtime.tree.branch import Branch
from runtime.tree.pool import Pool

OPTIONS = ContextOptions(n_ctx=1024, n_batch=256, n_ubatch=128, n_threads=1, n_seq_max=3)


@pytest.fixture
def pool(context):
    made = context("dense", OPTIONS)
    return Pool(made, probe(made), b"")


def test_the_lowest_free_sequence_is_given_out_first(pool):
    one, two, three = pool.new(), pool.new(), pool.new()
    assert [branch.sequence for branch in pool] == [0, 1, 2]
    assert not pool.has_free_sequence
    pool.drop(two)
    pool.drop(one)
    assert list(pool) == [three]
    assert pool.new().sequence == 0
    pool.check_integrity()


def test_a_dropped_branch_is_neither_tip_nor_busy_and_its_cells_are_free(pool, tokens):
    branch = pool.new()
    branch.evaluate(tokens(1, 100), logits=False)
    pool.tip = branch
    assert pool.cells() == 100
    pool.drop(branch)
    assert (pool.tip, pool.cells()) == (None, 0)
    pool.check_integrity()


def test_idle_are_those_that_are_not_busy_the_tip_last(pool):
    one, two, three = pool.new(), pool.new(), pool.new()
    one.used, two.used, three.used = 3, 2, 1
    pool.tip = three
    assert pool.idle() == [two, one, three]
    pool.busy.add(one)
    assert pool.idle() == [two, three]


def test_cells_of_copies_are_counted_once(pool, tokens):
    one, other = pool.new(), pool.new()
    one.evaluate(tokens(1, 200), logits=False)
    other.follow(one)
    assert pool.cells() == 200
    one.evaluate(tokens(2, 30), logits=False)
    other.evaluate(tokens(3, 50), logits=False)
    assert (pool.cells(), pool.own_cells(one), pool.own_cells(other)) == (280, 30, 50)
    one.cut(150)
    assert (pool.cells(), pool.own_cells(one)) == (250, 0)
    one.evaluate(tokens(4, 60), logits=False)
    assert (pool.cells(), pool.own_cells(one)) == (310, 60)
    pool.check_integrity()


class _NoContext:
    """Stands for a context where only the books are looked at."""

    n_ctx, n_batch, n_ubatch, n_seq_max = 10_000, 256, 128, 4

    def copy(self, source, target):
        pass

    def cut(self, position, sequence=0):
        return True

    def position_range(self, sequence=0):
        return 0, self.n_ctx


moves = st.lists(st.tuples(st.sampled_from(["append", "cut", "copy"]), st.integers(0, 3), st.integers(0, 60)))


@given(moves)
def test_whatever_branches_do_cells_are_counted_as_llama_cpp_counts_them(steps):
    context = _NoContext()
    branches = [Branch(context, Memory("dense", 0, 0), b"", sequence) for sequence in range(4)]
    pool = Pool(context, Memory("dense", 0, 0), b"")
    pool._branches = branches
    cells, number = [[] for _ in branches], 0
    for what, which, size in steps:
        branch = branches[which]
        if what == "append" and size:
            branch.append(np.zeros(size, dtype=np.int32))
            cells[which] = [*cells[which], *range(number, number + size)]
            number += size
        elif what == "cut" and size <= branch.length:
            branch.cut(size)
            cells[which] = cells[which][:size]
        elif what == "copy" and size % 4 != which:
            branch.follow(branches[size % 4])
            cells[which] = cells[size % 4]
        assert pool.cells() == len(set().union(*cells))
        for i, own in enumerate(cells):
            others = set().union(*cells[:i], *cells[i + 1 :])
            assert pool.own_cells(branches[i]) == len(set(own) - others)


def test_a_sequence_that_is_ahead_of_its_branch_does_not_pass_the_integrity_check(pool, tokens):
    branch = pool.new()
    branch.evaluate(tokens(1, 50), logits=False)
    branch.length = 40
    with pytest.raises(AssertionError, match="does not end where its branch does"):
        pool.check_integrity()


def test_a_reserved_sequence_is_for_work_between_two_calls(context):
    made = context("hybrid", ContextOptions(n_ctx=512, n_batch=128, n_ubatch=128, n_threads=1, n_seq_max=3))
    pool = Pool(made, probe(made), b"", reserve=True)
    pool.new()
    assert pool.has_free_sequence
    pool.new()
    assert (len(pool), pool.capacity, pool.has_free_sequence) == (2, 2, False)
    scratch = pool.new()
    pool.check_integrity()
    pool.drop(scratch)
    assert not pool.has_free_sequence
