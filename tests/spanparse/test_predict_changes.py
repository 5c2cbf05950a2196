"""Fields followed from one prompt into the next, which is known as text only."""

from __future__ import annotations

import hashlib
from typing import Any

from spanparse import Request, TemplateSource, parse_request, render_plain
from spanparse.prediction import Change, Continuation
from spanparse.prediction.changes import changes, summarised
from spanparse.prediction.divergence import Places
from spanparse.shared import common_prefix

Message = dict[str, Any]

CHAT: list[Message] = [
    {"role": "user", "content": "How long is the way to the hut?"},
    {"role": "assistant", "content": "It takes three hours.", "reasoning_content": "Nine kilometres, uphill."},
    {"role": "user", "content": "And the way back?"},
    {"role": "assistant", "content": "It takes two hours.", "reasoning_content": "The same, downhill."},
]
NEXT: list[Message] = [{"role": "user", "content": "Fine, thanks for all of this."}]


def fates(template: str, messages: list[Message] = CHAT) -> list[tuple[int | None, str, str]]:
    """What became of the fields of `messages` when the user spoke again."""
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    request = Request(messages)
    rendering = parse_request(source, request)
    following = render_plain(template, Request([*messages, *NEXT]))
    continuation = Continuation("user_message", [*messages, *NEXT], len(messages))
    kept = common_prefix(rendering.text, following)
    found = changes(Places(rendering, request), rendering.text, following, kept, continuation)
    return [(change.message, change.field, change.what) for change in found]


def test_nothing_has_changed_where_the_next_prompt_only_goes_on() -> None:
    assert fates("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}") == []


def test_what_stands_behind_a_dropped_field_is_in_its_place() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>"
        "{% if messages[-1].role == 'assistant' and m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    assert fates(template) == [(1, "reasoning_content", "dropped"), (3, "reasoning_content", "dropped")]


def test_a_field_that_is_shown_without_its_white_space_is_rewritten() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content if messages[-1].role == 'assistant' else m.content | trim }}"
        "{% endfor %}"
    )
    padded = [{**CHAT[0], "content": "  How long is it?  "}, *CHAT[1:]]
    assert fates(template, padded) == [(0, "content", "rewritten")]


def test_a_field_that_the_last_message_takes_along_has_moved() -> None:
    template = (
        "{% for m in messages[1:] %}<{{ m.role }}>{% if loop.last %}({{ messages[0].content }}){% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    longer = [*CHAT[:2], {"role": "user", "content": "And how long is the way back? " * 5}]
    assert fates(template, longer) == [(0, "content", "moved")]


def test_a_long_text_put_in_between_moves_nothing() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{% if loop.first and messages | length > 4 %}{{ 'A long notice. ' * 40 }}{% endif %}{% endfor %}"
    )
    # The first field behind it cannot be told from one that has moved; those that follow it can.
    assert fates(template) == [(1, "content", "moved")]


def test_the_same_text_in_several_messages_is_followed_in_order() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>"
        "{% if messages[-1].role == 'assistant' and m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    same = [{**message, "content": "The same words."} for message in CHAT]
    assert fates(template, same) == [(1, "reasoning_content", "dropped"), (3, "reasoning_content", "dropped")]


def test_changes_of_one_kind_are_summarised_with_their_messages() -> None:
    dropped = [Change(index, "reasoning_content", "dropped", 9, "because") for index in (1, 3, 5)]
    moved = Change(0, "content", "moved", 9, "because")
    assert summarised([*dropped, moved]) == [(dropped[0], [1, 3, 5]), (moved, [0])]
