"""Measured costs."""

from __future__ import annotations

import pytest

from planner import Costs
from runtime.rates import Rates
from runtime.report import Report, Restored, Seconds


def report(evaluated, saves, restored, **seconds):
    at = Restored(10, "ram") if restored else None
    return Report(100, at, evaluated, 0, 1, (), 0, saves, 0, Seconds(**seconds))


def test_nothing_measured_is_what_the_planner_assumes():
    assert Rates().costs() == Costs()


def test_a_request_tells_what_a_token_a_save_and_a_restore_take():
    rates = Rates()
    rates.observe(report(200, 4, True, prefill=1.0, save=0.2, restore=0.03))
    costs = rates.costs()
    assert (costs.seconds_per_token, costs.per_save, costs.per_restore) == pytest.approx((0.005, 0.05, 0.03))
    assert costs.per_break == Costs().per_break


def test_what_a_request_did_not_do_changes_nothing():
    rates = Rates()
    rates.observe(report(100, 2, True, prefill=1.0, save=0.2, restore=0.03))
    rates.observe(report(100, 0, False, prefill=1.0))
    assert rates.costs().per_save == pytest.approx(0.1)
    assert rates.costs().per_restore == pytest.approx(0.03)


def test_later_requests_count_more():
    rates = Rates()
    for _ in range(30):
        rates.observe(report(100, 0, False, prefill=1.0))
    for _ in range(30):
        rates.observe(report(100, 0, False, prefill=2.0))
    assert rates.costs().seconds_per_token == pytest.approx(0.02, rel=0.05)
