"""What a comparison says of two texts."""

from __future__ import annotations

from tests.audit.corpus import Template
from tests.audit.shapes import Conversation
from tests.engines.comparison import compare
from tests.engines.page import agreement, difference_rows
from tests.engines.pair import Pair, Refused

TEMPLATE = "{{ messages[0].content }}"


def pair(template: str = TEMPLATE, shape: str = "user") -> Pair:
    conversation = Conversation([{"role": "user", "content": "one text"}])
    return Pair(Template("snippet", template, False), shape, "", True, conversation, {})


def test_equal_texts_are_the_same() -> None:
    assert compare(pair(), lambda _: "one text").agreement == "same"


def test_texts_that_differ_are_shown_where_they_part_with_their_cause() -> None:
    found = compare(pair(), lambda _: "one test", lambda _, theirs: f"because of {theirs}")
    assert (found.agreement, found.ours, found.theirs, found.cause) == (
        "differs",
        "one text",
        "one test",
        "because of one test",
    )


def test_refusals_are_told_apart() -> None:
    refusing = "{{ raise_exception('no') }}"
    assert compare(pair(), lambda _: Refused("why")).agreement == "only ours"
    assert compare(pair(refusing), lambda _: "text").agreement == "only theirs"
    assert compare(pair(refusing), lambda _: Refused("why")).agreement == "both refuse"


def test_agreement_is_the_share_of_the_pairs_that_both_render() -> None:
    same, other = compare(pair(), lambda _: "one text"), compare(pair(), lambda _: "another")
    refused = compare(pair(), lambda _: Refused("why"))
    assert agreement([same, same, same, other, refused]) == 0.75


def test_differences_are_listed_by_template_and_cause() -> None:
    shapes = ("turns", "user", "user")
    found = [compare(pair(shape=shape), lambda _: "another", lambda *_: "null") for shape in shapes]
    assert difference_rows(found) == ["| `snippet` | null | 3 | turns; user |"]
