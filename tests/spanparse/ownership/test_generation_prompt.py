"""The generation prompt is what `add_generation_prompt` adds, also where the switch takes something away at the end."""

from __future__ import annotations

import hashlib

from spanparse import Rendering, TemplateSource, parse

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "so"}]
TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


def rendered(template: str, *, add: bool) -> Rendering:
    source = TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest())
    return parse(source, CHAT, add_generation_prompt=add)


def prompt(rendering: Rendering) -> str | None:
    found = rendering.generation_prompt
    return None if found is None else rendering.text[found.start : found.end]


def test_it_takes_the_place_of_what_ends_a_prompt_without_it() -> None:
    template = TURNS + "{% if add_generation_prompt %}<|assistant|>{% else %}</s>{% endif %}"
    assert prompt(rendered(template, add=True)) == "<|assistant|>"
    assert prompt(rendered(template, add=False)) is None


def test_it_goes_on_to_the_end_where_every_prompt_ends_alike() -> None:
    template = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}<|reward|>"
    assert prompt(rendered(template, add=True)) == "<|assistant|><|reward|>"


def test_what_the_switch_adds_inside_a_message_is_no_prompt() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{% if add_generation_prompt %}[ask]{% endif %}"
        "{{ m.content }}<|end|>{% endfor %}"
    )
    rendering = rendered(template, add=True)
    assert "[ask]" in rendering.text
    assert prompt(rendering) is None


def test_a_template_that_turns_the_switch_on_by_itself_adds_no_prompt_whatever_the_caller_says() -> None:
    template = (
        "{% set add_generation_prompt = true %}" + TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    asked, unasked = rendered(template, add=True), rendered(template, add=False)
    assert prompt(asked) is None
    assert asked == unasked
