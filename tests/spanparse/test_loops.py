"""Templates that are one loop over the messages: what an iteration writes belongs to the message it holds.

The check is independent of the marks: the same template with characters put round each iteration shows what each wrote.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import pytest

from spanparse import Request, TemplateRefused, TemplateSource, parse, render_plain

HEADS = [
    "{{ m.role }}: ",
    "<|{{ m.role }}|>\n",
    "<|im_start|>{{ m.role }}\n",
    "### {{ m.role | title }}:\n",
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}",
    "{% if m.role == 'user' %}[INST] {% elif m.role == 'system' %}<<SYS>>{% elif m.role == 'tool' %}[TOOL]{% endif %}",
    "{% if m.role == 'user' %}Human: {% elif m.role == 'system' %}System: {% else %}Assistant: {% endif %}",
    "",
    "{{ loop.index }}. ",
    "{% if not loop.first %}{{ '\n' }}{% endif %}{{ m.role }}> ",
]
CONTENTS = [
    "{{ m.content }}",
    "{{ m.content | trim if m.content else '' }}",
    "{{ m.content | default('(none)', true) }}",
    "{{ m.content | tojson }}",
]
TRAILERS = [
    "</s>",
    "<|im_end|>{{ '\n' }}",
    "{% if m.role == 'user' %} [/INST]{% elif m.role == 'assistant' %}</s>{% endif %}",
    "",
]
SHAPES = [
    [("system", "S"), ("user", "q"), ("assistant", "{}"), ("user", "z")],
    [("user", "q"), ("assistant", "{}"), ("tool", "r"), ("user", "z")],
    [("user", "{}"), ("assistant", "b"), ("user", "c")],
    [("user", "q"), ("assistant", "b"), ("tool", "{}"), ("tool", "{}"), ("assistant", "{}")],
    [("system", "{}"), ("user", "q"), ("user", "q"), ("assistant", "b")],
]
TEXTS = ["hello", "", None, "\n", "user", "q"]


def conversations() -> list[list[dict[str, Any]]]:
    return [
        [{"role": role, "content": text if content == "{}" else content} for role, content in shape]
        for shape, text in itertools.product(SHAPES, TEXTS)
    ]


@pytest.mark.parametrize("head", HEADS)
def test_each_message_owns_what_its_iteration_wrote_whatever_it_says(head: str) -> None:
    compared = 0
    for content, trailer in itertools.product(CONTENTS, TRAILERS):
        body = head + content + trailer
        template = "{% for m in messages %}" + body + "{% endfor %}"
        marked = "{% for m in messages %}\x01" + body + "{% endfor %}"
        source = TemplateSource("loop", template, hashlib.sha256(template.encode()).hexdigest())
        for messages in conversations():
            try:
                rendering = parse(source, messages, add_generation_prompt=False)
            except TemplateRefused:
                continue
            written = render_plain(marked, Request(messages, add_generation_prompt=False)).split("\x01")[1:]
            if "".join(written) != rendering.text:
                continue
            compared += 1
            ends = list(itertools.accumulate(map(len, written)))
            expected = [
                (end - len(text), end) if text else (None, None) for end, text in zip(ends, written, strict=True)
            ]
            if rendering.exact:
                assert [(m.start, m.end) for m in rendering.messages] == expected, (template, messages)
    assert compared > 300
