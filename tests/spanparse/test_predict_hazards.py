"""What may change although the conversation only goes on."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from spanparse import TemplateSource, load_source, predict
from spanparse.prediction import Divergence, Hazard
from spanparse.sample import sample_messages, sample_tools

Message = dict[str, Any]

POLICY = "You book flights.\n\nThe current time is 2026-05-15 15:00 EST.\n\nConfirm before you book."


def chat(system: str) -> list[Message]:
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": "Two seats to Oslo, please."},
        {"role": "assistant", "content": "On which day?"},
        {"role": "user", "content": "The day after tomorrow."},
    ]


def hazards(name: str, messages: list[Message], tools: list[dict[str, Any]] | None = None) -> list[Hazard]:
    return list(predict(load_source(name), messages, tools=tools).hazards)


def test_an_ordinary_conversation_has_none() -> None:
    assert hazards("chatml", sample_messages(), sample_tools()) == []


def test_a_template_that_prints_the_date_is_one() -> None:
    (clock,) = hazards("gpt-oss", chat("You book flights."))
    assert clock.name == "clock"
    assert clock.diverges is not None
    assert clock.diverges.field == "default_text"
    assert clock.remedies == ()


def test_a_variable_that_fixes_the_date_is_a_remedy() -> None:
    (clock,) = hazards("llama3", chat("You book flights."))
    assert clock.lost_chars > 0
    (remedy,) = clock.remedies
    assert remedy.kind == "kwarg"
    assert remedy.text.startswith("set date_string to a fixed date:")
    assert remedy.lost_chars == 0


def test_a_date_that_is_already_fixed_is_no_hazard() -> None:
    found = predict(load_source("llama3"), chat("You book flights."), kwargs={"date_string": "1 Feb 2026"})
    assert found.hazards == ()


def test_a_template_that_mentions_the_clock_and_prints_none_is_no_hazard() -> None:
    text = "{% if show_date %}{{ strftime_now('%Y') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
    template = TemplateSource("test", text, hashlib.sha256(text.encode()).hexdigest())
    assert predict(template, chat("You book flights.")).hazards == ()


def test_a_line_with_the_time_of_the_request_is_one() -> None:
    (line,) = hazards("chatml", chat(POLICY))
    assert line.name == "volatile_line"
    assert line.text.endswith("The current time is 2026-05-15 15:00 EST.")
    assert line.diverges == Divergence(0, "content", POLICY.index("2026"))


def test_a_volatile_line_at_the_end_costs_less() -> None:
    (line,) = hazards("chatml", chat(POLICY))
    (remedy,) = line.remedies
    assert remedy.kind == "placement"
    assert remedy.text.startswith("move the line to the end of the last user message:")
    assert remedy.lost_chars == len("2026-05-15 15:00 EST.<|im_end|>\n<|im_start|>assistant\n<think>\n")
    assert remedy.lost_chars < line.lost_chars


def test_a_volatile_line_cannot_move_to_a_user_message_that_is_not_there() -> None:
    (line,) = hazards("chatml", chat(POLICY)[:1])
    assert line.remedies == ()


def test_a_paragraph_that_holds_the_time_is_quoted_in_part_and_stays_where_it_is() -> None:
    (line,) = hazards("chatml", chat(f"Today is 2026-05-15. {'You book flights. ' * 30}"))
    assert line.text.endswith("…")
    assert line.remedies == ()


@pytest.mark.parametrize(
    "stamp", ["2026-05-15", "15:04", "May 15", "5/15/2026", "1789000000", "0" * 8 + "-0000" * 4 + "0" * 8]
)
def test_dates_times_and_ids_of_the_request_are_recognised(stamp: str) -> None:
    found = [hazard.name for hazard in hazards("chatml", chat(f"You book flights.\nNow: {stamp}\nBe brief."))]
    assert found == ["volatile_line"]


@pytest.mark.parametrize(
    "system", ["The office opened on 2019-05-15.", "Trains leave at 15:04.", "Today is a good day.", "Use 12 words."]
)
def test_fixed_dates_and_plain_words_are_not(system: str) -> None:
    assert hazards("chatml", chat(system)) == []


def test_a_date_in_what_the_user_says_is_not() -> None:
    messages = chat("You book flights.")
    messages[1] = {"role": "user", "content": "Now it is 15:04."}
    assert hazards("chatml", messages) == []


def test_tools_in_no_order_of_their_own_are_one() -> None:
    forecast, route = sample_tools()
    (order,) = hazards("chatml", sample_messages(), [route, forecast])
    assert order.name == "tools_order"
    assert order.diverges is not None
    assert order.diverges.field.startswith("tools[0]")
    (remedy,) = order.remedies
    assert remedy.kind == "order"
    assert remedy.lost_chars == 0


def test_the_order_of_tools_does_not_matter_where_the_template_shows_none() -> None:
    forecast, route = sample_tools()
    assert hazards("gemma3", chat("You book flights."), [route, forecast]) == []


def test_tools_of_one_name_have_no_order_by_name() -> None:
    forecast, route = sample_tools()
    assert hazards("chatml", sample_messages(), [route, forecast, forecast]) == []
