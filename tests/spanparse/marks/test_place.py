"""Places are kept from one render to the next, and say which message they are of."""

from __future__ import annotations

import pytest

from spanparse.marks import place
from spanparse.marks.marked import Marked
from spanparse.marks.place import Place, request_place


def test_a_place_asked_for_twice_is_the_same_one_with_a_marked_key_too() -> None:
    fields = request_place()["messages"][3]
    content = fields["content"]
    assert content is fields[Marked("content")] is request_place()["messages"][3]["content"]
    assert content.origin.path == ("messages", 3, "content")
    assert all(type(step) in (str, int) for step in fields[Marked("other")].origin.path)


def test_what_stands_in_a_message_is_of_that_message() -> None:
    deep = request_place()["messages"][7]["tool_calls"][0]
    assert (deep.origin.message, deep.origin.literal) == (7, False)
    assert (deep.literal.message, deep.literal.literal) == (7, True)
    assert request_place()["messages"].origin.message is None
    assert request_place()["tools"][0].origin.message is None


def test_no_more_places_are_kept_than_a_few_conversations_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_kept", Place(()))
    monkeypatch.setattr(Place, "made", 0)
    monkeypatch.setattr(place, "_MOST_KEPT", 10)
    first = request_place()
    for index in range(11):
        assert first[index].origin.path == (index,)
    assert request_place() is not first
    assert request_place() is request_place()
