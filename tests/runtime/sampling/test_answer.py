"""An answer's text: cut at a stop, complete in its UTF-8, and given out as soon as it is certain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sampling import Answer, Sampling
from runtime.sampling.answer import StopSearch

LETTERS = st.text("abc", max_size=12)


class Letters:
    """A vocabulary in which token n is byte n, and 0 ends an answer."""

    def piece(self, token):
        return bytes([token])

    def ends_generation(self, token):
        return token == 0


def say(text, *, stop=(), max_tokens=100):
    """What comes out after each byte, and the answer."""
    answer = Answer(Letters(), Sampling(stop=tuple(stop)), max_tokens)
    given = []
    for byte in text:
        assert answer.finish is None
        given.append(answer.add(byte))
    return given, answer


def first_stop(text, stops):
    """Letter by letter: where the text is cut."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ending:
            return end - max(map(len, ending))
    return None


@given(st.lists(LETTERS, max_size=6), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3))
def test_a_stop_is_found_alike_however_the_text_comes(pieces, stops):
    search, given, stopped = StopSearch(stops), "", False
    for piece in pieces:
        text, stopped = search.feed(piece)
        given += text
        if stopped:
            break
    text = "".join(pieces)
    cut = first_stop(text, stops)
    assert stopped == (cut is not None)
    assert given + search.held == (text if cut is None else text[:cut])


@given(LETTERS, st.lists(st.text("abc", min_size=1, max_size=4), max_size=3))
def test_only_what_may_become_a_stop_is_held_back(text, stops):
    search = StopSearch(stops)
    given, stopped = search.feed(text)
    if not stopped:
        assert given + search.held == text
        assert not search.held or any(stop.startswith(search.held) for stop in stops)


def test_text_is_held_while_it_may_become_a_stop():
    given, answer = say(b"a<b</s", stop=["</s"])
    assert given == ["a", "", "<b", "", "", ""]
    result = answer.result()
    assert (result.text, result.finish, len(result.ids)) == ("a<b", "stop", 6)


def test_held_text_comes_out_at_the_end():
    given, answer = say(b"a</\0", stop=["</s"])
    assert given == ["a", "", "", "</"]
    assert (answer.result().text, answer.finish) == ("a</", "stop")


def test_at_max_tokens_the_rest_comes_out():
    given, answer = say(b"a<", stop=["</s"], max_tokens=2)
    assert given == ["a", "<"]
    assert (answer.result().text, answer.finish) == ("a<", "length")


@pytest.mark.parametrize("text", ["é", "€", "😀"])
def test_a_character_comes_out_when_it_is_complete(text):
    given, answer = say(text.encode())
    assert given == [""] * (len(text.encode()) - 1) + [text]
    assert answer.result().text == text


def test_bytes_that_are_no_utf_8_become_replacement_characters():
    assert say(b"a\xffb")[0] == ["a", "�", "b"]
    assert say(b"a\xe2\x82\0")[0] == ["a", "", "", "�"]


@given(st.lists(st.integers(1, 255), max_size=12))
def test_the_text_is_what_decoding_all_bytes_gives(text):
    _, answer = say(bytes(text))
    answer.end("length")
    assert answer.result().text == bytes(text).decode("utf-8", "replace")


def test_a_stop_that_the_last_bytes_complete_ends_the_answer():
    given, answer = say(b"a\xe2\0", stop=["�"])
    assert given == ["a", "", ""]
    assert (answer.result().text, answer.finish) == ("a", "stop")


def test_the_token_that_ends_an_answer_is_not_part_of_it():
    answer = say(b"ab\0")[1]
    assert answer.result() == ((97, 98), "stop", "ab", ())
