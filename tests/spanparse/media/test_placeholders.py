"""What templates show for media is found where it stands, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanparse import load_source, parse
from spanparse.media import find_placeholders
from spanparse.sources import TemplateSource

User = Callable[..., list[dict[str, Any]]]
IMAGE = {"type": "image"}
LOOP = """{% for m in messages %}<|{{ m.role }}|>
{%- if m.content is string %}{{ m.content }}{% else %}{% for part in m.content -%}
{% if part.type == 'text' %}{{ part.text }}{% else %}SHOWN{% endif %}{% endfor %}{% endif %}<|end|>{% endfor %}"""


def template(shown: str) -> TemplateSource:
    return TemplateSource("test", LOOP.replace("SHOWN", shown), "", None, {}, None)


def groups(source: TemplateSource, messages: list[dict[str, Any]]) -> list[tuple[tuple[int, int], str]]:
    rendering = parse(source, messages)
    return [(found.place, rendering.text[found.start : found.end]) for found in find_placeholders(rendering)]


@pytest.mark.parametrize(
    ("shown", "group"),
    [
        ("<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("Picture 1: <|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("<|vision_bos|><|IMAGE|><|vision_eos|>", "<|vision_bos|><|IMAGE|><|vision_eos|>"),
        ("<image>\n", "<image>"),
        ("<image><REKA_IMG_TOKEN><REKA_IMG_TOKEN></image>", "<image><REKA_IMG_TOKEN><REKA_IMG_TOKEN></image>"),
        ("\n\n<|image|>\n\n", "<|image|>"),
        ("[IMG]", "[IMG]"),
        ("<start_of_image>", "<start_of_image>"),
        ("<|begin_of_image|><|image|><|end_of_image|>", "<|begin_of_image|><|image|><|end_of_image|>"),
        ("<|begin_of_image|><|begin_of_image|>", "<|begin_of_image|><|begin_of_image|>"),
        (
            "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>\n",
            "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>",
        ),
        ("<|image_3|>", "<|image_3|>"),
    ],
)
def test_the_placeholder_is_found_with_its_begin_and_end_and_without_text(user: User, shown: str, group: str) -> None:
    assert groups(template(shown), user("a", IMAGE, "b", IMAGE)) == [((0, 1), group), ((0, 3), group)]


@pytest.mark.parametrize("shown", ["", "(an image)", "<|unheard_of|>", '{"type": "image"}', "<|begin_of_image|>" * 578])
def test_what_is_no_known_placeholder_is_not_taken_for_one(user: User, shown: str) -> None:
    assert groups(template(shown), user("a", IMAGE)) == []


@settings(deadline=None)
@given(st.sampled_from(["<|image_pad|>", "<start_of_image>", "<|vision_start|><|image_pad|><|vision_end|>", "<image>"]))
def test_no_text_of_a_caller_passes_for_a_placeholder(user: User, quoted: str) -> None:
    shown = "{{ part.image }}<|image_pad|>{{ part.image }}"
    messages = [*user(quoted, {**IMAGE, "image": quoted}, quoted), {"role": "assistant", "content": quoted}]
    assert groups(template(shown), messages) == [((0, 1), "<|image_pad|>")]


def test_text_of_a_caller_beside_a_placeholder_is_left_alone(user: User) -> None:
    shown = "<|image_pad|>"
    messages = user("<|vision_start|>", IMAGE, "<|vision_end|>")
    assert groups(template(shown), messages) == [((0, 1), "<|image_pad|>")]


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("chatml", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("gemma3", "<start_of_image>"),
        ("gemma4", "<|image|>"),
        ("llama3", "<|image|>"),
        ("mistral-v7", "[IMG]"),
    ],
)
def test_every_bundled_template_with_media_shows_them_in_a_known_way(user: User, name: str, group: str) -> None:
    assert groups(load_source(name), user("a", IMAGE)) == [((0, 1), group)]


def test_media_that_are_shown_twice_are_found_twice(user: User) -> None:
    found = groups(template("<image>, again: <image>"), user(IMAGE))
    assert found == [((0, 0), "<image>"), ((0, 0), "<image>")]


@pytest.mark.parametrize(
    "parts", ["i", "ii", "it", "iti", "itti", "tit", "iit"], ids=lambda parts: f"{parts} (i: image)"
)
@pytest.mark.parametrize("name", ["chatml", "gemma3", "gemma4", "llama3", "mistral-v7"])
@pytest.mark.parametrize("before", [[], [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]])
def test_every_image_belongs_to_its_message_wherever_it_stands(
    user: User, name: str, parts: str, before: list[dict[str, Any]]
) -> None:
    messages = [*before, *user(*(IMAGE if part == "i" else f"text {n}" for n, part in enumerate(parts)))]
    last = len(messages) - 1
    found = find_placeholders(parse(load_source(name), messages))
    assert [each.place for each in found] == [(last, n) for n, part in enumerate(parts) if part == "i"]
