"""What the environment looks up, calls and loops over is what Jinja says of it, in the sandbox."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import TemplateRuntimeError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spanparse import Request, TemplateRefused, render_plain
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


NAMES = [name for name in sorted({*dir({}), *dir(""), *dir([]), "index0", "previtem"}) if name[0] != "_"]
NAMES += ["a", "b", "_a", "__a__", "missing", "__class__", "__len__", "_place", "_text"]
VALUES = [
    *("{'a': 1, 'items': 2, 'b': none}", "messages[0]", "messages[0].content", "'text'", "('x' | safe)", "[1]", "(1,)"),
    *("1", "none", "range", "cycler", "loop", "joiner('a')", "[1] | map('string')", "{'a': 1}.items()"),
]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_looked_up_is_what_the_sandbox_gives(value: str) -> None:
    looks = "".join(
        f"{name} {{{{ ({value}).{name} is defined }}}} {{{{ ({value})['{name}'] is defined }}}}"
        f" {{{{ ({value}).{name} is callable }}}}\n"
        for name in NAMES
    )
    template = "{% for x in [1, 2] %}" + looks + "{% endfor %}"
    expected = ImmutableSandboxedEnvironment().from_string(template).render(messages=MESSAGES)
    assert render_plain(template, Request(MESSAGES)) == expected
    assert render_marked(template, Request(MESSAGES)) == expected


@pytest.mark.parametrize(
    "call",
    [
        *("f()", "f(1)", "f(1, 2)", "f(a=1)", "f(1, b=2)", "f(1, 2, 3)", "f(c=1)", "f(*[1])", "f(**{'b': 1})"),
        *("g()", "g(1, 2, 3, k=4)", "h(1)", "h(caller=1)", "(f(1) | safe) ~ '<'", "f(f('<'))"),
    ],
)
@pytest.mark.parametrize("escape", ["false", "true"])
def test_macros_are_called_as_jinja_calls_them(call: str, escape: str) -> None:
    template = (
        "{% macro f(a, b=a) %}{{ a is defined }}{{ a }}{{ b }}<{% endmacro %}"
        "{% macro g(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}"
        "{% macro h(a, caller=none) %}{{ a }}{{ caller }}{% endmacro %}"
        "{% autoescape " + escape + " %}{{ " + call + " }}{% endautoescape %}"
    )
    try:
        expected: str | None = ImmutableSandboxedEnvironment().from_string(template).render(messages=MESSAGES)
    except (TypeError, TemplateRuntimeError):
        expected = None
    for render in (render_plain, render_marked):
        if expected is None:
            with pytest.raises(TemplateRefused):
                render(template, Request(MESSAGES))
        else:
            assert render(template, Request(MESSAGES)) == expected
