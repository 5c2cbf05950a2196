"""Which barriers survive whatever is appended."""

from __future__ import annotations

from typing import Any

import pytest

from spanparse import (
    Note,
    Rendering,
    TemplateSource,
    load_source,
    parse_request,
    request_of,
    stable_prefix,
    with_stability,
)
from spanparse.sample import sample_messages, sample_tools
from spanparse.sources import bundled_names


def marked(name: str, **kwargs: Any) -> Rendering:
    template = load_source(name)
    request = request_of(template, sample_messages(), tools=sample_tools(), kwargs=kwargs)
    return with_stability(parse_request(template, request), template, request)


def first_unstable(rendering: Rendering) -> int | None:
    """The message where the first barrier that is not stable begins."""
    return next((barrier.message for barrier in rendering.barriers if not barrier.stable), None)


def test_barriers_behind_reasoning_that_will_be_dropped_are_not_stable() -> None:
    # The message itself begins where it always will; what follows its reasoning does not.
    assert first_unstable(marked("chatml")) == 9


def test_all_barriers_are_stable_where_the_template_rewrites_nothing() -> None:
    assert all(barrier.stable for barrier in marked("qwen3-coder").barriers)


def test_a_variable_that_preserves_reasoning_makes_barriers_stable() -> None:
    assert all(barrier.stable for barrier in marked("chatml", preserve_thinking=True).barriers)


@pytest.mark.parametrize("name", [name for name in bundled_names() if name != "gemma3"])
def test_the_end_of_a_system_text_that_stands_in_front_is_stable(name: str) -> None:
    rendering = marked(name)
    ends = [barrier for barrier in rendering.barriers if barrier.kind == "system_end"]
    moves = name.startswith("mistral")
    assert all(barrier.stable is not moves for barrier in ends)


def test_the_end_of_an_answer_that_another_one_takes_back_is_not_stable() -> None:
    template = TemplateSource(
        "test",
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{{ '[end]' if loop.last or messages[loop.index0 + 1].role != 'assistant' }}{% endfor %}",
        "",
    )
    request = request_of(template, [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}])
    text = parse_request(template, request).text
    assert stable_prefix(text, template, request) == len(text) - len("[end]")


def test_a_later_system_message_is_not_reckoned_with() -> None:
    template = load_source("deepseek")
    chat = [{"role": "system", "content": "S1"}, {"role": "user", "content": "one"}]
    request = request_of(template, chat)
    rendering = with_stability(parse_request(template, request), template, request)
    later = [*chat, {"role": "assistant", "content": "two"}, {"role": "system", "content": "S2"}, chat[1]]
    grown = parse_request(template, request_of(template, later))
    assert grown.messages[3].notes == (Note("hoisted"),)
    assert not grown.text.startswith(rendering.text[: rendering.barriers[-1].offset])
    assert all(barrier.stable for barrier in rendering.barriers)


def test_a_conversation_whose_continuations_are_all_refused_has_unknown_stability() -> None:
    template = load_source("gemma3")
    request = request_of(template, [{"role": "user", "content": "Hello"}])
    refusing = type(template)("test", "{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}Hi", "")
    assert stable_prefix("Hi", refusing, request) is None
