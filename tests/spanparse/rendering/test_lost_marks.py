"""Whatever a template does to a text of the request, its characters are marked or the loss is told."""

from __future__ import annotations

import string
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tests.spanparse.rendering.expressions import ATOMS, MACRO, NAMES, OPERATIONS, SHAPES, expressions, request

from spanparse import Provenance, Rendering, TemplateError, trace
from spanparse.parse import parse_request, request_of
from spanparse.rendering.environment import ChatEnvironment
from spanparse.sources import TemplateSource

# Words of letters that stand nowhere else: the characters of each tell which message it is from.
_ALPHABETS: Final = dict(zip((0, 1, 2, None), ("αβγδεζ", "бгджзи", "աբգդեզ", "āēīōūģ"), strict=True))
_MESSAGE: Final = (
    dict.fromkeys(("content", "note", "name"), 0)
    | dict.fromkeys(("answer", "reasoning", "id", "call", "city"), 1)
    | {"part": 2}
)
_TEXTS: Final = {
    name: f"{letters[i % 3 :]}|\t{letters[: 3 + i % 3]} {letters}"
    for i, name in enumerate(NAMES)
    for letters in [_ALPHABETS[_MESSAGE.get(name)]]
}
_WORDS: Final = {
    name: f"q{chr(ord('b') + i) * 3}x|\t<b>{string.ascii_lowercase[i] * 2}&q</b>" for i, name in enumerate(NAMES)
}


def _rendered(template: str, texts: dict[str, str], **kwargs: int) -> tuple[Rendering, Provenance] | None:
    """What `template` makes of a request of `texts`; None if it refuses it."""
    messages, options = request(texts)
    options["kwargs"] |= kwargs
    source = TemplateSource("test", MACRO + template, "")
    asked = request_of(source, messages, add_generation_prompt=False, **options)
    try:
        return parse_request(source, asked), trace(source, asked)
    except TemplateError:
        return None


def _check_letters(rendering: Rendering, found: Provenance) -> None:
    """Each letter of a message's comes from one of its fields, or the message is not exact, or the text differs."""
    if rendering.reason is not None and rendering.reason.kind == "render-differs":
        return
    for message in (0, 1, 2):
        mine = _ALPHABETS[message]
        others = "".join(_ALPHABETS.values()).replace(mine, "")
        for place, letter in enumerate(found.text):
            source = found.at(place)
            marked = not source.is_template_text and source.path.startswith(f"messages[{message}]")
            if letter.lower() in mine and not marked:
                reason = rendering.messages[message].reason
                assert reason is not None, (letter, source)
                assert reason.kind == "origin-lost"
                assert reason.operation is not None
            assert not (marked and letter.lower() in others), (letter, source)


@settings(deadline=None, max_examples=300)
@given(expression=expressions(), shape=st.sampled_from(SHAPES))
def test_each_letter_is_marked_or_its_message_says_which_operation_lost_it(expression: str, shape: str) -> None:
    rendered = _rendered(shape.replace("EXPR", expression), _TEXTS)
    assume(rendered is not None)
    assert rendered is not None
    _check_letters(*rendered)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_operation_loses_marks_without_a_word(operation: str) -> None:
    values = (
        "{% set value = [" + ", ".join(ATOMS) + "][pick] %}{% set other = [messages[1].content, '1', 2][pick % 3] %}"
    )
    template = values + SHAPES[0].replace("EXPR", operation.format(value="value", other="other"))
    for pick in range(len(ATOMS)):
        rendered = _rendered(template, _TEXTS, pick=pick)
        if rendered is not None:
            _check_letters(*rendered)


def test_every_method_of_texts_and_every_filter_is_among_the_operations() -> None:
    for name in dir(str):
        assert name.startswith("_") or any(f".{name}" in operation for operation in OPERATIONS)
    names = {*ImmutableSandboxedEnvironment().filters, "tojson"}
    assert names == {*ChatEnvironment()._bounded}
    assert all(any(f"| {name}" in operation for operation in OPERATIONS) for name in names)
