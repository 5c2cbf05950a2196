"""`loop` says what Jinja's says, of lists and of whatever else is gone through."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spanparse import Request, render_plain
from spanparse.rendering.render import render_marked

MESSAGES: list[dict[str, Any]] = [{"role": role, "content": role[0]} for role in ("user", "assistant", "tool")]
ITEMS = ["[]", "[1]", "[1, 2, 3]", "(1, 2)", "'abc'", "range(3)", "{'a': 1, 'b': 2}", "[1, 2] | map('string')"]
BODIES = [
    "{{ loop }}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.depth }}{{ loop.depth0 }}",
    "{{ loop.previtem is defined }}{{ loop.previtem }}{{ loop.nextitem is defined }}{{ loop.nextitem }}",
    "{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x in [1, 2]) }}",
    "{{ x }}{% if loop.first %}{% for y, l in loop %}<{{ y }}{{ l.index }}>{% endfor %}{% endif %}{{ loop.last }}",
    "{{ x }}{% if loop.index == 2 %}{% break %}{% endif %}{{ loop.nextitem }}",
]


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("body", BODIES)
def test_loops_put_out_what_jinja_does(items: str, body: str) -> None:
    template = "{% for x in " + items + " %}" + body + "{% else %}none{% endfor %}"
    expected = ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).from_string(template).render()
    assert render_plain(template, Request(MESSAGES)) == expected
    assert render_marked(template, Request(MESSAGES)) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ loop.previtem.role if not loop.first }}{{ loop.nextitem.role if not loop.last }}"
        "{{ m.content }}{% endfor %}",
        "{% for m in messages[1:] if m.role != 'tool' %}{{ loop.index }}{{ loop.last }}{{ m.role }}{% endfor %}",
        "{% for i in [[1, [2]], [3]] recursive %}{{ loop.depth }}{{ i if i is number else loop(i) }}{% endfor %}",
    ],
)
def test_loops_over_messages_and_within_themselves_put_out_what_jinja_does(template: str) -> None:
    expected = ImmutableSandboxedEnvironment().from_string(template).render(messages=MESSAGES)
    assert render_plain(template, Request(MESSAGES)) == expected
    assert render_marked(template, Request(MESSAGES)) == expected
