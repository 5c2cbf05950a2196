"""A value that is worked out when it is first read."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

from spanparse.deferred import Deferred


def test_nothing_is_worked_out_before_it_is_read_and_once_then() -> None:
    calls: list[int] = []
    deferred = Deferred(lambda: calls.append(1) or "found")
    assert calls == []
    assert (deferred.value, deferred.value) == ("found", "found")
    assert calls == [1]


def test_what_the_work_holds_is_let_go_of() -> None:
    held = {1}
    seen = weakref.ref(held)
    deferred = Deferred(lambda held=held: len(held))
    del held
    assert deferred.value == 1
    gc.collect()
    assert seen() is None


def test_work_that_fails_fails_again_and_may_succeed_later() -> None:
    found: dict[str, int] = {}
    deferred = Deferred(lambda: found["x"])
    for _ in range(2):
        with pytest.raises(KeyError):
            deferred.value  # noqa: B018
    found["x"] = 3
    assert deferred.value == 3


def test_a_reader_that_comes_while_another_one_works_finds_the_value() -> None:
    inner: list[int] = []

    def work() -> int:
        if not inner:
            inner.append(0)
            inner.append(deferred.value)
        return 3

    deferred = Deferred(work)
    assert deferred.value == 3
    assert inner == [0, 3]


def test_it_is_compared_copied_and_pickled_as_its_value() -> None:
    deferred = Deferred(lambda: (1, "a"))
    assert deferred == Deferred.done((1, "a"))
    assert deferred != Deferred.done((2, "a"))
    assert deferred != (1, "a")
    assert hash(deferred) == hash(Deferred.done((1, "a")))
    assert copy.deepcopy(deferred) == deferred
    assert pickle.loads(pickle.dumps(Deferred(tuple))) == Deferred.done(())
    assert repr(deferred) == "(1, 'a')"
