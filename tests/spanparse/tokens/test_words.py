from __future__ import annotations

import pytest

from spanparse.tokens.words import WordEnds, splits_locally

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def test_a_word_ends_before_the_last_white_space() -> None:
    assert WordEnds([b"ab", b" cd"]).last("ab cd ef", 0, 8) == 5
    assert WordEnds([b"ab", b" cd"]).last("ab\ncd", 0, 5) == 2


def test_white_space_itself_and_text_before_the_start_do_not_count() -> None:
    ends = WordEnds([b"a"])
    assert ends.last("ab  ", 0, 4) == 2
    assert ends.last("ab cd", 2, 5) is None
    assert ends.last(" cd", 0, 3) is None


def test_no_word_ends_where_a_token_spells_its_last_letter_and_what_follows() -> None:
    ends = WordEnds([b"cd.\n\n", b"of the", "x▁y".encode()])
    assert ends.last("ab cd.\n\n", 0, 8) == 2
    assert ends.last("ab of the", 0, 9) == 2
    assert ends.last("xx yy", 0, 5) is None


def test_only_ascii_letters_end_words_where_others_may_be_normalised() -> None:
    assert WordEnds([b"a"]).last("é x", 0, 3) == 1
    assert WordEnds([b"a"], normalised=True).last("é x", 0, 3) is None


# As DeepSeek V3 and Mistral's Tekken publish them.
DEEPSEEK_3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.mark.parametrize(
    ("pattern", "local"),
    [
        (GPT_2, True),
        (DEEPSEEK_3, True),
        ("[一-龥぀-ゟ゠-ヿ]+", True),
        (TEKKEN, True),
        (r"\s?[!-/:-~\x{FF01}-\x{FF0F}]+", True),
        (r"[\p{L}&&[^\x{1C89}-\x{1C8A}]]+|\s+", False),
        (GPT_2.replace(r"\p{L}", r"[\p{L}&&[^\x{1C89}]]"), True),
        (r"[ -~]+", False),
        (r"[\x{9}-\x{7E}]+", False),
        (r"\p{L}+ \p{N}+|\p{L}|\p{N}| ", False),
        (r"\p{N}+|(?=(\d{3})+(?!\d))", False),
        (GPT_2 + r"|a(?=.*b)", False),
    ],
)
def test_rules_that_split_each_side_by_itself_are_known(pattern: str, local: bool) -> None:
    assert splits_locally(pattern) is local
