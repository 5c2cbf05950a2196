"""A meter counts what is held and forgets what is not; time and steps are looked at now and then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import chain

import pytest

from spanparse.bounds.limits import LimitReached, Limits, Meter
from spanparse.marks.marked import Marked
from spanparse.marks.origin import NOWHERE

MEGABYTE = 1 << 20


def test_values_that_nobody_holds_are_forgotten() -> None:
    meter = Meter(Limits(memory=64 * MEGABYTE))
    for i in range(300):
        meter.keep("x" * MEGABYTE + str(i))


@pytest.mark.parametrize(
    "made",
    [
        lambda i: "x" * MEGABYTE + str(i),
        lambda i: Marked.whole("x" * MEGABYTE + str(i), NOWHERE),
        lambda i: [i] * (MEGABYTE // 32),
        lambda i: 1 << (8 * MEGABYTE + i),
        lambda i: bytes(MEGABYTE) + bytes([i]),
        lambda i: dict.fromkeys(range(MEGABYTE // 64)),
    ],
    ids=["text", "marked text", "list", "number", "bytes", "dict"],
)
def test_values_that_are_held_count_until_the_memory_is_used_up(made: Callable[[int], object]) -> None:
    meter = Meter(Limits(memory=64 * MEGABYTE))
    held = []

    def hold(count: int) -> None:
        for i in range(count):
            held.append(meter.keep(made(i)))

    hold(20)
    with pytest.raises(LimitReached, match="holds more than 67,108,864 bytes"):
        hold(100)
    assert len(held) < 120


def test_a_value_kept_twice_counts_once() -> None:
    meter = Meter(Limits(memory=64 * MEGABYTE))
    text = "x" * (20 * MEGABYTE)
    for _ in range(100):
        assert meter.keep(text) is text


def test_small_values_count_through_the_allocator() -> None:
    meter = Meter(Limits(memory=16 * MEGABYTE))
    steps = chain.from_iterable(meter.stretches())
    held = []

    def hold(count: int) -> None:
        for i in range(count):
            next(steps)
            held.append(meter.keep((i, str(i))))

    hold(20_000)
    with pytest.raises(LimitReached, match="holds more than"):
        hold(500_000)


def test_small_values_that_only_the_meter_holds_are_forgotten() -> None:
    meter = Meter(Limits(memory=64 * MEGABYTE))
    for i in range(40):
        # Many times the list's own size, and uncounted until the next look.
        meter.keep([str(i + k) for k in range(100_000)])
        meter.charge(5 * MEGABYTE)


def test_the_step_after_the_last_is_one_too_many() -> None:
    steps = chain.from_iterable(Meter(Limits(steps=1000)).stretches())
    for _ in range(1000):
        next(steps)
    with pytest.raises(LimitReached, match="after 1,000 steps"):
        next(steps)


def test_time_is_looked_at_between_steps_and_between_large_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanparse.bounds.limits.time.monotonic", itertools.count().__next__)
    steps, work = Meter(Limits(seconds=3)), Meter(Limits(seconds=3))
    with pytest.raises(LimitReached, match="after 3 s"):
        any(chain.from_iterable(steps.stretches()))
    with pytest.raises(LimitReached, match="after 3 s"):
        any(work.charge(MEGABYTE) for _ in range(100))


def test_time_that_has_started_runs_on_for_every_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanparse.bounds.limits.time.monotonic", lambda: 100.0)
    limits = Limits(seconds=5).started()
    assert limits.until == 105.0
    monkeypatch.setattr("spanparse.bounds.limits.time.monotonic", lambda: 106.0)
    assert limits.started() is limits
    with pytest.raises(LimitReached, match="after 5 s"):
        Meter(limits).charge(100 * MEGABYTE)


def test_a_text_is_refused_before_it_is_made() -> None:
    meter = Meter(Limits(characters=1000, memory=4000))
    meter.expect(1000)
    with pytest.raises(LimitReached, match="longer than 1,000 characters"):
        meter.expect(1001)
    with pytest.raises(LimitReached, match="more than 4,000 bytes"):
        meter.expect(1000, growth=6)
    with pytest.raises(LimitReached, match="more than 4,000 bytes"):
        meter.expect_items(501)
