"""Which of a template's own texts begin a turn and which end one."""

from __future__ import annotations

import pytest

from spanparse.marks.marked import Runs
from spanparse.marks.origin import Origin, Run
from spanparse.ownership.markers import (
    Openers,
    chain_begin,
    ends_turn,
    is_closing,
    is_opening,
    is_turn,
    leads_of,
    learn_starts,
    literals_of,
    names_role,
    turns_end,
)
from spanparse.ownership.segments import changes_of


def written(*pieces: tuple[int, str]) -> tuple[str, Runs]:
    """A text and the runs that tile it: (message, text) in order; an upper-case piece is a field."""
    text, runs = "", []
    for message, piece in pieces:
        origin = Origin(("messages", message, "content")) if piece.isupper() else Origin(("messages", message), True)
        runs.append(Run(len(text), len(text) + len(piece), origin, -1))
        text += piece
    return text, tuple(runs)


def starts_of(*pieces: tuple[int, str]) -> frozenset[str]:
    """The start markers learned from a text that is `written` so."""
    text, runs = written(*pieces)
    owners = [message for message, _ in pieces]
    return learn_starts(text, literals_of(text, runs), leads_of(text, runs, owners, changes_of(owners)))


@pytest.mark.parametrize(
    "marker",
    [
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|eom|>",
        "</s>",
        "[/INST]",
        "<end_of_turn>",
        "<turn|>",
        "<|user_end|>",
    ],
)
def test_closing_markers_show_it_by_their_names(marker: str) -> None:
    assert is_closing(marker)


@pytest.mark.parametrize(
    "marker", ["<|im_start|>", "<|user|>", "<|sender|>", "[INST]", "<｜User｜>", "<|turn>", "<|vendor|>"]
)
def test_markers_that_open_are_not_taken_for_closing_ones(marker: str) -> None:
    assert not is_closing(marker)


def test_the_marker_behind_a_closing_one_is_the_start() -> None:
    assert starts_of((0, "<|a|>"), (0, "X"), (1, "<|x_end|>\n<|a|>"), (1, "Y")) == {"<|a|>"}


def test_plain_words_serve_as_a_start_where_there_are_no_markers() -> None:
    assert starts_of((0, "User says: "), (0, "X")) == {"User says:"}


def test_a_marker_named_after_a_role_is_a_start_wherever_it_stands() -> None:
    assert starts_of((0, "<|in|>"), (0, "X"), (0, "<|x_Assistant|>"), (1, "Y")) == {"<|in|>", "<|x_Assistant|>"}


def test_a_marker_with_a_role_behind_it_is_a_start_wherever_it_stands() -> None:
    assert starts_of((0, "Query: "), (0, "X"), (0, "<|sh|>assistant<|eh|>"), (1, "Y")) == {"Query:", "<|sh|>"}


def test_a_role_in_front_of_a_marker_at_the_beginning_of_a_line_is_a_start_with_it() -> None:
    assert "user<|sep|>" in starts_of((0, "Be kind.\nuser<|sep|>"), (0, "X"))


@pytest.mark.parametrize("beginning", ["<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "<bos>"])
def test_markers_joined_to_that_of_a_role_are_starts_but_not_the_beginning_of_a_sequence(beginning: str) -> None:
    lead = f"{beginning}<|turn|><|SYSTEM_TOKEN|>"
    assert starts_of((0, "X"), (0, lead), (1, "Y")) == {"<|turn|>", "<|SYSTEM_TOKEN|>"}


@pytest.mark.parametrize("lead", ["[TOOL_CALLS]", "<tool_calls>", "<|tool_call>"])
def test_what_opens_a_tool_call_starts_no_turn(lead: str) -> None:
    assert starts_of((0, lead), (0, "X")) == frozenset()


def test_a_closing_run_ends_what_the_template_opened_and_nothing_else() -> None:
    text, runs = written((0, "<out_begin|>"), (0, "<｜out▁begin｜>"), (0, "X"), (1, "<｜out▁end｜></b>"), (1, "Y"))
    begin = runs[3].start
    openers = Openers(text, lambda: literals_of(text, runs))
    assert openers.closing_run(begin, runs[3].end, turns=True) == begin + len("<｜out▁end｜>")


def test_an_end_of_turn_needs_no_opener() -> None:
    text, runs = written((0, "X"), (1, "<|eot_id|>"), (1, "Y"))
    openers = Openers(text, lambda: literals_of(text, runs))
    assert openers.closing_run(1, 11, turns=True) == 11
    assert openers.closing_run(1, 11, turns=False) == 1


def test_a_beginning_of_sequence_in_front_of_a_start_opens() -> None:
    assert is_opening("<s>")
    assert is_opening(" \n")
    assert not is_opening("<|im_end|>\n")


@pytest.mark.parametrize("text", ["a<|im_end|>", "a</s>\n", "<|user|>a<|/user|>", "a<|endofsystem|>"])
def test_a_turn_ends_with_a_marker_that_closes_it_or_a_role(text: str) -> None:
    assert ends_turn(text)


@pytest.mark.parametrize("text", ["<|im_end|>a", "<|sh|>user<|end_header_id|>", "a</tool_call>", "a", ""])
def test_a_turn_does_not_end_with_what_closes_something_inside_it(text: str) -> None:
    assert not ends_turn(text)


@pytest.mark.parametrize("text", ["<|im_start|>system\nBe kind.<|im_end|>\n", "<|system|>\nBe kind.\n", "<|x|></s>"])
def test_a_turn_begins_with_a_marker_and_is_closed_or_says_something_behind_a_role(text: str) -> None:
    assert is_turn(text)


@pytest.mark.parametrize("text", ["Human: be kind.\n", "<s>", "<|TURN|><|SYSTEM_TOKEN|>", "[SETTINGS]{}[/SETTINGS]"])
def test_words_headers_and_settings_are_no_turn(text: str) -> None:
    assert not is_turn(text)


def test_a_run_of_markers_begins_with_the_first_start_in_it() -> None:
    text = "a<|end|><|begin|><|turn|><|role|><|text|>"
    border = text.index("<|text|>")
    assert chain_begin(text, 0, border, frozenset({"<|turn|>", "<|text|>"})) == text.index("<|turn|>")
    assert chain_begin(text, 0, border, frozenset({"<|text|>"})) == border
    assert chain_begin(text, border, border, frozenset({"<|turn|>"})) == border


def test_turns_end_with_their_closing_markers_or_with_what_the_message_ends_with() -> None:
    text = "<|a|>x<|im_end|>\n<|a|>y<|next|>z</tool_call>"
    assert text[: turns_end(text, 0, len(text), "")].endswith("<|im_end|>")
    assert text[: turns_end(text, 0, len(text), "<|next|>\n")].endswith("<|next|>")
    assert turns_end(text, text.index("z"), len(text), "") == 0


def test_markers_name_roles_by_any_of_their_names() -> None:
    assert names_role("<|x_Human|>", "user")
    assert names_role("<start_of_turn>model", "assistant")
    assert not names_role("<|user|>", "assistant")
