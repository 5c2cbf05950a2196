"""Accounts that add up, with a reason for everything beyond the ideal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.attachment import Attachment, MediaChunk
from runtime.prefix import Shared
from runtime.report import Clock, Excess, Report, Restored, Reuse, Seconds
from spanparse.media import MediaPart


def reuse(**changes):
    given = {"prompt_tokens": 100, "shared": Shared(80, 80, 0), "start": 80, "lost": {}}
    return Reuse(**{**given, **changes})


def test_the_report_has_the_promised_keys():
    report = Report(
        100, Restored(80, "ram"), 20, 80, 19, (Excess(1, "state-missing", "common 81, nearest 80"),), 1, 2, 3, Seconds()
    )
    assert json.loads(json.dumps(report.to_json())) == {
        "prompt_tokens": 100,
        "restored": {"offset": 80, "from": "ram"},
        "evaluated": 20,
        "reused": 80,
        "ideal": 19,
        "excess": [{"tokens": 1, "reason": "state-missing", "detail": "common 81, nearest 80"}],
        "breaks": 1,
        "saves": 2,
        "bytes": 3,
        "seconds": dict.fromkeys(("render", "tokenize", "plan", "restore", "prefill", "save", "decode"), 0.0),
        "refused": None,
    }


def test_nothing_restored_is_null():
    assert Report(1, None, 1, 0, 1, (), 0, 0, 0, Seconds()).to_json()["restored"] is None


def test_an_identical_prompt_has_ideal_one():
    assert reuse(shared=Shared(100, 100, 0), start=99).ideal == 1


def test_what_is_ideal_has_no_excess():
    assert reuse().explain(20) == ()


def test_less_than_the_ideal_has_no_excess():
    # An answer that is part of the next prompt was evaluated although no earlier prompt held it.
    assert reuse(start=90).explain(10) == ()


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ({}, "state-missing"),
        ({60: "evicted", 70: "budget"}, "evicted"),
        ({70: "budget"}, "budget"),
        ({50: "evicted", 81: "evicted"}, "state-missing"),
    ],
)
def test_what_is_evaluated_again_is_put_down_to_what_happened_to_the_states_there(lost, reason):
    (excess,) = reuse(start=50, lost=lost).explain(50, "messages[3].content")
    assert excess == Excess(30, reason, "common 80, nearest 50, diverged at messages[3].content")


def test_what_a_cancelled_prompt_never_evaluated_is_put_down_to_that():
    (excess,) = reuse(shared=Shared(80, 30, 0), start=30).explain(70)
    assert (excess.tokens, excess.reason) == (50, "cancelled")


def test_what_a_failed_decode_made_to_be_evaluated_again_is_named():
    first, second = reuse(start=70).explain(50)
    assert (first.tokens, first.detail) == (10, "common 80, nearest 70")
    assert (second.tokens, second.detail) == (20, "evaluated again after a decode that failed")


def with_media(*places, **changes):
    media = [MediaChunk(begin, end, 1, 0, Attachment(None, MediaPart(begin, 0, {}), None)) for begin, end in places]
    return reuse(media=media, **changes)


def test_media_that_were_encoded_again_without_need_have_a_reason_of_their_own():
    media, text = with_media((10, 30), (50, 70), (85, 95), start=40).explain(60)
    assert (media.tokens, media.reason) == (20, "media")
    assert media.detail == "messages[50].content[0] encoded again, no state lies inside media: common 80, nearest 40"
    assert (text.tokens, text.reason) == (20, "state-missing")


def test_media_alone_leave_nothing_for_another_reason():
    (media,) = with_media((50, 80), start=50).explain(50)
    assert (media.tokens, media.reason) == (30, "media")


def test_media_whose_state_was_given_up_are_not_apart():
    (excess,) = with_media((50, 70), start=40, lost={75: "evicted"}).explain(60)
    assert (excess.tokens, excess.reason) == (40, "evicted")


def test_media_that_no_earlier_request_came_to_were_not_encoded_twice():
    (excess,) = with_media((50, 70), shared=Shared(80, 40, 0), start=40).explain(60)
    assert excess.reason == "cancelled"


@given(st.data())
def test_the_excess_adds_up_to_what_was_evaluated_beyond_the_ideal(data):
    prompt = data.draw(st.integers(1, 50))
    prompted = data.draw(st.integers(0, prompt))
    evaluated_before = data.draw(st.integers(0, prompted))
    # What the memory holds was evaluated; it is an earlier prompt's or reaches into its answer.
    most = evaluated_before if evaluated_before < prompted else prompt - 1
    start = data.draw(st.integers(0, min(most, prompt - 1)))
    evaluated = data.draw(st.integers(1, 2 * prompt))
    found = Reuse(prompt, Shared(prompted, evaluated_before, 0), start, {})
    excess = found.explain(evaluated)
    assert sum(item.tokens for item in excess) == max(0, evaluated - found.ideal)
    assert all(item.tokens > 0 for item in excess)


def test_a_phase_that_fails_is_counted_and_phases_add_up():
    clock = Clock()
    with clock.phase("plan"):
        pass
    first = clock.seconds().plan
    with pytest.raises(KeyError), clock.phase("plan"):
        raise KeyError
    assert clock.seconds().plan > first > 0
    assert clock.seconds().decode == 0
