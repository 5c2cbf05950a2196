"""What a template's own renders teach about its markers, and how texts are cut into chunks."""

from __future__ import annotations

import pytest

from spanparse import Limits, Request
from spanparse.ownership.chunks import begins_with, chunks, common_end, find_first, find_last
from spanparse.ownership.markers import is_closing, names_role, turns_end
from spanparse.ownership.probes import profile_of
from spanparse.ownership.profile import Profile


def profile(template: str) -> Profile:
    return profile_of(template, Request([]), Limits().started())


@pytest.mark.parametrize("marker", ["<|im_end|>", "[INST]", "<x17>", "</s>", "<｜User｜>", "[X1]"])
def test_a_marker_of_whatever_form_is_one_chunk(marker: str) -> None:
    assert chunks(f"a{marker}\n\nuser:") == ("a", marker, "\n\n", "user", ":")


def test_texts_are_compared_by_chunks_not_by_characters() -> None:
    assert common_end(["<|a_end|>\n", "<|b_end|>\n"]) == "\n"
    assert not begins_with("<|user_end|>", "<|user")
    assert begins_with("<end><x>", "<end>\n")
    assert (find_first("a<x>b<x>", ["<x>"]), find_last("a<x>b<x>", ["<x>"]), find_last("a", ["<x>"])) == (1, 5, -1)


def test_leads_openers_and_closers_are_learned_from_where_they_stand() -> None:
    found = profile("<q>{% for m in messages %}<a>{{ m.role }}\n{{ m.content }}<b>\n{% endfor %}")
    assert (found.beginning, found.openers, found.closers) == ("<q>", {"<a>"}, {"<b>"})
    assert found.leads["user"] == "<a>user\n"


def test_what_is_written_in_front_of_all_messages_but_the_first_closes_the_one_before() -> None:
    found = profile("{% for m in messages %}{{ '###' if not loop.first }}<a>{{ m.role }}{{ m.content }}{% endfor %}")
    assert found.heads == {"###"}


def test_a_beginning_of_sequence_in_front_of_each_question_closes_nothing() -> None:
    text = "<s>{% for m in messages %}{% if m.role == 'user' %}{{ '<s>' if not loop.first }}[I]{{ m.content }}[J]"
    found = profile(text + "{% else %}{{ m.content }}{% endif %}{% endfor %}")
    assert found.heads == frozenset()


def test_a_template_that_refuses_every_probe_teaches_nothing() -> None:
    assert profile("{{ raise_exception('no') }}") == Profile()


def test_markers_that_name_turns_are_told_by_their_names_where_turns_are_grouped() -> None:
    assert is_closing("<|im_end|>")
    assert not is_closing("[INST]")
    assert names_role("<start_of_turn>model", "assistant")
    text = "<|a|>x<|im_end|>\n<|a|>y<|next|>z</tool_call>"
    assert text[: turns_end(text, 0, len(text))].endswith("<|im_end|>")
    assert turns_end(text, text.index("z"), len(text)) == 0
