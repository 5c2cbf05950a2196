"""A message that says nothing owns what it owns when it says something, if the template writes the same around it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from spanparse import Rendering, TemplateSource, parse

Message = dict[str, Any]

TEMPLATES = {
    "in a loop": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
    "ends without a name": "{% for m in messages %}]~b]{{ m.role }}\n{{ m.content }}[e~[\n{% endfor %}",
    "an end of another kind": "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|cos|>{% endfor %}",
    "system outside": (
        "{% if messages[0].role == 'system' %}<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n{% endif %}"
        "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    ),
    "plain words": (
        "{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} ASSISTANT:"
        "{% elif m.role == 'assistant' %}{{ m.content }}</s>{% else %}{{ m.content }}\n\n{% endif %}{% endfor %}"
    ),
    "tags": (
        "{% for m in messages %}{% if m.role == 'user' %}<HUMAN>{{ m.content }}<AI>"
        "{% elif m.role == 'assistant' %}{% if m.content %}{{ m.content }}{% endif %}</s>{% endif %}{% endfor %}"
    ),
    "as JSON": (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ m.content | tojson if m.role == 'tool' else m.content }}<|im_end|>\n{% endfor %}"
    ),
    "merged": (
        "{% for m in messages %}{% if m.role != 'system' %}<start_of_turn>{{ m.role }}\n"
        "{{ messages[0].content + '\n' if loop.index == 2 }}{{ m.content }}<end_of_turn>\n{% endif %}{% endfor %}"
    ),
}
ROLES = ("system", "user", "assistant", "tool", "assistant", "user", "assistant")
WORDS = [f"word{place}" for place in range(len(ROLES))]


def render(template: str, texts: list[str]) -> Rendering:
    messages: list[Message] = [{"role": role, "content": text} for role, text in zip(ROLES, texts, strict=True)]
    return parse(TemplateSource("test", template, hashlib.sha256(template.encode()).hexdigest()), messages)


def parts(rendering: Rendering, words: list[str]) -> list[tuple[int, str, str]]:
    """(message, kind, text) of every part in text order, the `words` taken out of it."""
    found = []
    for message in rendering.messages:
        for part in message.parts:
            text = rendering.text[part.start : part.end]
            for word in words:
                text = text.replace(word, "")
            if text:
                found.append((part.start, message.index, part.kind, text))
    return [each[1:] for each in sorted(found)]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("blank", [*([place] for place in range(len(ROLES))), [1, 2], [2, 3, 4], [*range(len(ROLES))]])
def test_parts_around_an_empty_text_are_those_around_a_word(name: str, blank: list[int]) -> None:
    texts = ["" if place in blank else word for place, word in enumerate(WORDS)]
    said, unsaid = render(TEMPLATES[name], WORDS), render(TEMPLATES[name], texts)
    assert unsaid.exact
    taken = [WORDS[place] for place in blank]
    assert parts(unsaid, taken) == parts(said, taken)


def test_an_empty_message_in_another_one_s_turn_has_no_span() -> None:
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.name }}{{ m.content }}<|im_end|>\n{% endfor %}"
    template = "{{ messages[0].content }}" + template.replace("in messages", "in messages[1:]")
    rendering = render(template, ["", *WORDS[1:]])
    assert rendering.messages[0].pieces == ()
    assert rendering.exact


def test_a_prompt_of_empty_texts_alone_has_no_spans() -> None:
    rendering = render("{% for m in messages %}{{ m.content }}{% endfor %}", [""] * len(ROLES))
    assert rendering.text == ""
    assert rendering.exact
    assert not any(message.pieces for message in rendering.messages)
