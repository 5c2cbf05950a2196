"""What texts have in common, with no marker and no word torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.analysis.affixes import common_text, shared_end, shared_start

texts = st.lists(st.text(alphabet="<|>ab [] \n", max_size=12), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("given_texts", "shared"),
    [
        (["<|im_start|>user\n", "<|im_start|>system\n"], "<|im_start|>"),
        (["<|user|>", "<|use|>"], ""),
        (["### Problem:", "### Prose:"], "### "),
        (["[INST] a", "[INST] b"], "[INST] "),
        (["same", "same"], "same"),
    ],
)
def test_a_shared_start_is_made_of_whole_markers_and_words(given_texts: list[str], shared: str) -> None:
    assert shared_start(given_texts) == shared


@pytest.mark.parametrize(
    ("given_texts", "shared"),
    [
        (["</think>\n<call>", "</call>\n<call>"], "\n<call>"),
        (["<｜calls▁begin｜><｜call▁begin｜>", "<｜call▁end｜><｜call▁begin｜>"], "<｜call▁begin｜>"),
        (["the end", "a bend"], ""),
    ],
)
def test_a_shared_end_is_made_of_whole_markers_and_words(given_texts: list[str], shared: str) -> None:
    assert shared_end(given_texts) == shared


def test_a_few_odd_texts_do_not_count() -> None:
    assert common_text(["<a>user ", "<a>user ", "<b>"]) == "<a>user "


def test_white_space_in_front_goes_where_not_all_have_it() -> None:
    assert common_text(["\n<a>x", "<a>x"]) == "<a>x"


def test_what_others_begin_with_too_is_made_longer_by_the_usual_way_to_go_on() -> None:
    assert common_text(["<a>user\n", "<a>user\n", "<a>system\nHi<b>"], ["<a>assistant\n"]) == "<a>user\n"


@pytest.mark.parametrize("given_texts", [[], [""], [" ", "\n"], ["", "", "<a>"]])
def test_there_may_be_nothing_in_common(given_texts: list[str]) -> None:
    assert common_text(given_texts) is None


@given(texts)
def test_every_text_begins_and_ends_with_what_is_shared(given_texts: list[str]) -> None:
    assert all(text.startswith(shared_start(given_texts)) for text in given_texts)
    assert all(text.endswith(shared_end(given_texts)) for text in given_texts)
