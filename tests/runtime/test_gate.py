"""What several threads use until one of them closes it."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from runtime.errors import EngineClosed
from runtime.gate import Gate


def test_a_shut_gate_lets_nobody_in():
    gate = Gate()
    with gate.inside(), gate.inside():
        pass
    gate.shut()
    gate.shut()
    with pytest.raises(EngineClosed), gate.inside():
        pass


def test_shutting_waits_until_all_have_left():
    gate, entered, leave, shut = Gate(), Event(), Event(), Event()

    def use():
        with gate.inside():
            entered.set()
            leave.wait()
            assert not shut.is_set()

    def close():
        gate.shut()
        shut.set()

    user, closer = Thread(target=use), Thread(target=close)
    user.start()
    entered.wait()
    closer.start()
    # Long enough for a gate that does not wait to be noticed.
    assert not shut.wait(0.05)
    leave.set()
    user.join()
    closer.join()
    assert shut.is_set()


def test_whoever_fails_inside_has_left():
    gate = Gate()
    with pytest.raises(KeyError), gate.inside():
        raise KeyError
    gate.shut()
