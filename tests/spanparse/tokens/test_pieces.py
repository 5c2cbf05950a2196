from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanparse.tokens import Pieces

# Characters of one to four bytes.
TEXT = st.text(st.sampled_from("ab \né日🙂̈"), max_size=30)


def vocabulary(pieces: list[bytes]) -> tuple[Pieces, list[int]]:
    return Pieces(pieces.__getitem__), list(range(len(pieces)))


@given(TEXT, st.data())
def test_a_token_has_the_offset_of_the_code_point_that_holds_its_first_byte(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    breaks = sorted(data.draw(st.sets(st.integers(1, max(1, len(encoded) - 1)))))
    starts = [0, *breaks] if len(encoded) > 1 else [0] if encoded else []
    pieces, ids = vocabulary([encoded[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)] if starts else [])
    owner = [index for index, letter in enumerate(text) for _ in letter.encode()]
    assert pieces.offsets(ids, text, 100) == [100 + owner[start] for start in starts]


def test_pieces_that_do_not_spell_the_text_have_no_offsets() -> None:
    pieces, ids = vocabulary([b"he", b"llo"])
    assert pieces.offsets(ids, "hallo") is None
    assert pieces.offsets(ids, "hello!") is None
    assert pieces.offsets([], "hello") is None


def test_a_dummy_space_takes_no_character() -> None:
    pieces, ids = vocabulary([b" he", b"llo"])
    assert pieces.offsets(ids, "hello", 7) == [7, 9]
    assert pieces.offsets(ids, " hello", 7) == [7, 10]


def test_a_token_that_is_nothing_but_the_dummy_space_begins_where_the_text_does() -> None:
    pieces, ids = vocabulary([b" ", "日".encode()[:1], "日".encode()[1:], b"x"])
    assert pieces.offsets(ids, "日x") == [0, 0, 0, 1]


def test_a_text_that_writes_the_vocabularys_space_letter_is_spelled_with_spaces() -> None:
    pieces, ids = vocabulary([b"a b", b"c"])
    assert pieces.offsets(ids, "a▁bc") == [0, 3]


def test_each_piece_is_read_once() -> None:
    asked: list[int] = []

    def read(id: int) -> bytes:
        asked.append(id)
        return b"a"

    pieces = Pieces(read)
    assert pieces.offsets([5, 5], "aa") == pieces.offsets([5, 5], "aa") == [0, 1]
    assert asked == [5]
