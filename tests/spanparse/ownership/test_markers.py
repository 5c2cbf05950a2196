"""Which of a template's own texts begin a turn and which end one."""

from __future__ import annotations

import pytest

from spanparse.marks.origin import Origin
from spanparse.ownership.markers import Openers, is_closing, is_opening, learn_starts
from spanparse.ownership.segments import Segment


def written(*pieces: tuple[int, str]) -> tuple[str, list[Segment]]:
    """A text and the literal segments that write it: (message, text) in order; an upper-case piece is a field."""
    text, segments = "", []
    for message, piece in pieces:
        origin = Origin(("messages", message, "content")) if piece.isupper() else Origin(("messages", message), True)
        segments.append(Segment(len(text), len(text) + len(piece), origin, -1, message))
        text += piece
    return text, segments


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
    text, segments = written((0, "<|a|>"), (0, "X"), (1, "<|x_end|>\n<|a|>"), (1, "Y"))
    assert learn_starts(text, segments) == {"<|a|>"}


def test_plain_words_serve_as_a_start_where_there_are_no_markers() -> None:
    text, segments = written((0, "USER SAYS: "), (0, "X"))
    segments[0] = Segment(0, 11, Origin(("messages", 0), True), -1, 0)
    assert learn_starts(text, segments) == {"USER SAYS:"}


def test_a_marker_named_after_a_role_is_a_start_wherever_it_stands() -> None:
    text, segments = written((0, "<|in|>"), (0, "X"), (0, "<|x_Assistant|>"), (1, "Y"))
    assert learn_starts(text, segments) == {"<|in|>", "<|x_Assistant|>"}


@pytest.mark.parametrize("lead", ["[TOOL_CALLS]", "<tool_calls>", "<|tool_call>"])
def test_what_opens_a_tool_call_starts_no_turn(lead: str) -> None:
    text, segments = written((0, lead), (0, "X"))
    assert learn_starts(text, segments) == frozenset()


def test_a_closing_run_ends_what_the_template_opened_and_nothing_else() -> None:
    text, segments = written((0, "<out_begin|>"), (0, "<｜out▁begin｜>"), (0, "X"), (1, "<｜out▁end｜></b>"), (1, "Y"))
    begin = segments[3].start
    assert Openers(text, segments).closing_run(begin, segments[3].end) == begin + len("<｜out▁end｜>")


def test_an_end_of_turn_needs_no_opener() -> None:
    text, segments = written((0, "X"), (1, "<|eot_id|>"), (1, "Y"))
    assert Openers(text, segments).closing_run(1, 11) == 11


def test_a_beginning_of_sequence_in_front_of_a_start_opens() -> None:
    assert is_opening("<s>")
    assert is_opening(" \n")
    assert not is_opening("<|im_end|>\n")
