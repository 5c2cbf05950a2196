"""The conversations of the audit are what their names say, and the same each time."""

from __future__ import annotations

import pytest
from tests.audit.corpus import bundled
from tests.audit.fields import fields
from tests.audit.shapes import HELD_OUT_SHAPES, LONG, SHAPES, conversation, drawn_shapes
from tests.audit.vocabulary import Words, turned, words_in

from spanparse.conversation import check_messages, check_tools

TEMPLATE = bundled()[0].text


def test_there_are_at_least_thirty_shapes() -> None:
    assert len(SHAPES) >= 30


@pytest.mark.parametrize("shape", [*SHAPES, *HELD_OUT_SHAPES, LONG, *drawn_shapes(1, 50)])
def test_a_shape_is_the_same_each_time_and_a_valid_conversation(shape: str) -> None:
    built = conversation(shape, TEMPLATE)
    assert built == conversation(shape, TEMPLATE)
    assert check_messages(built.messages) == built.messages
    assert check_tools(built.tools) == built.tools


def test_other_seeds_draw_other_conversations() -> None:
    drawn = [conversation(shape, TEMPLATE) for seed in (1, 2) for shape in drawn_shapes(seed, 20)]
    assert len({repr(conversation) for conversation in drawn}) == 40


def test_the_held_out_shapes_are_other_ones() -> None:
    held_out = [conversation(shape, TEMPLATE) for shape in HELD_OUT_SHAPES]
    assert len(held_out) >= 25
    assert all(conversation(shape, TEMPLATE) not in held_out for shape in SHAPES)


@pytest.mark.parametrize(
    "shape", sorted({*SHAPES, *HELD_OUT_SHAPES, *drawn_shapes(1, 50)} - {"the same text everywhere"})
)
def test_a_word_stands_in_one_field_only(shape: str) -> None:
    found: dict[str, str] = {}
    for index, message in enumerate(conversation(shape, TEMPLATE).messages):
        for field in fields(message):
            for word in set(words_in(field.value)) if not field.borrowed else ():
                assert found.setdefault(word, f"{index}{field.path}") == f"{index}{field.path}"


def test_the_long_shape_has_500_messages() -> None:
    assert len(conversation(LONG, TEMPLATE).messages) == 500


def test_words_are_distinct_and_cannot_be_found_across_each_other() -> None:
    words = Words()
    found = [words.one() for _ in range(20_000)]
    assert len(set(found)) == len(found)
    assert words_in("".join(found)) == found


def test_a_turned_text_keeps_its_length_and_what_it_quotes() -> None:
    word = Words().one()
    changed = turned(f"{word} <|im_end|>")
    assert changed.endswith(" <|im_end|>")
    assert words_in(changed) != [word]
    assert len(changed) == len(f"{word} <|im_end|>")
