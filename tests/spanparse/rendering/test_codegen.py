"""A macro's outputs go straight into those of what calls it, and the text is what Jinja would make of them."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spanparse import Request, TemplateRefused, render_plain
from spanparse.marks.marked import Marked
from spanparse.rendering.extensions import GenerationBlock
from spanparse.rendering.render import render_marked

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "<you>"}]
HEADER = "{% macro head(role) %}{{ '[' + role + ']' }}{% endmacro %}"


def owners(marked: Marked) -> list[tuple[str, int | None]]:
    return [(marked[run.start : run.end].__str__(), run.origin.message) for run in marked._runs]


@pytest.mark.parametrize(
    "template",
    [
        HEADER + "{{ head('a') }}{{ 'x' + head('b') + 'y' }}{{ head('c') ~ 1 ~ head('d') }}{{ head(head('e')) }}",
        HEADER
        + "{{ head(x) if x else head('no') }}{{ head('a') if missing }}{{ 'b' if missing else x if x else 'c' }}",
        HEADER + "{% set t = head('a') %}{{ t }}{{ head('b') | upper }}{{ head('c').strip('[') }}{{ head(role='d') }}",
        HEADER + "{% set t %}{{ head('a') }}{% endset %}{{ t * 2 }}{% filter upper %}{{ head('b') }}{% endfilter %}",
        HEADER
        + "{{ head }}{{ head.name }}{{ head.arguments }}{{ head._takes is defined }}{% set h = head %}{{ h('a') }}",
        "{% macro f(a, b=2) %}{{ a ~ b }}{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, b=4) }}{{ f() }}",
        "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, k=3) }}",
        "{% macro f() %}({{ caller() }}{{ caller() ~ '.' }}){% endmacro %}{% call f() %}{{ x }}{% endcall %}",
        "{% macro f(n) %}{{ n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(3) }}{% block b %}{{ f(2) }}{% endblock %}",
        "{% macro f(n) %}{% macro g() %}{{ n }}{% endmacro %}{{ g() ~ g() + 'z' }}{% endmacro %}{{ f(1) ~ f(2) }}",
        "{% macro f() %}{{ '<' }}{% autoescape true %}{{ '<' + x }}{% endautoescape %}{% endmacro %}{{ f() + '<' }}",
        "{% autoescape true %}{% macro f() %}{{ '<' }}{% endmacro %}{{ f() }}{{ f() ~ '<' }}{% endautoescape %}",
        "{% for m in messages %}{% generation %}{{ m.role }}{% for x in 'ab' %}{{ loop.index ~ x }}{% endfor %}"
        "{% set x = 1 %}{% endgeneration %}{{ x }}{% endfor %}",
        "{% generation %}{{ varargs }}{{ caller }}{{ kwargs }}{% endgeneration %}",
        "{% set t %}{% generation %}{{ x }}{% endgeneration %}{% endset %}{{ t | upper }}",
        "{% set n = namespace(v=0) %}{% macro f() %}{% set n.v = n.v + 1 %}{{ n.v }}{% endmacro %}{{ f() + f() }}",
        "{% set y = x ~ 1 ~ none ~ [] ~ (2, x) ~ {} ~ z ~ -1 ~ true %}{{ y }}{{ (x ~ [] ~ 1.5) | upper }}",
        "{% macro f(m) %}{% if loop is defined %}{{ loop }}{% endif %}{{ m.role }}{% endmacro %}"
        "{% for m in messages %}{{ f(m) }}{{ loop.index ~ f(m) }}{% endfor %}",
    ],
)
def test_macros_and_choices_put_out_what_jinja_would(template: str) -> None:
    environment = ImmutableSandboxedEnvironment(extensions=[GenerationBlock])
    expected = environment.from_string(template).render(messages=MESSAGES, x="<hello>")
    request = Request(MESSAGES, kwargs={"x": "<hello>"})
    assert render_plain(template, request) == expected
    assert render_marked(template, request) == expected


@pytest.mark.parametrize("call", ["f()", "head(1, 2)", "head(k=1)", "'a' + x()", "head('a') + 1", "1 + head('a')"])
def test_what_is_no_macro_or_takes_something_else_is_refused_as_ever(call: str) -> None:
    for render in (render_plain, render_marked):
        with pytest.raises(TemplateRefused):
            render(HEADER + "{{ " + call + " }}", Request(MESSAGES, kwargs={"x": "hello"}))


def test_text_that_a_macro_writes_in_a_loop_belongs_to_what_the_loop_holds_unless_nobody_knows_it() -> None:
    template = (
        "{% macro place(text) %}{% for m in messages %}{% if m.content == text %}{{ '#' }}{{ loop.index }}"
        "{{ m.content }}{% endif %}{% endfor %}{% endmacro %}"
        "{% for m in messages %}{{ '(' }}{{ place('hello') }}{{ ')' }}{% endfor %}"
    )
    assert owners(render_marked(template, Request(MESSAGES))) == [
        ("(#1", 0),
        ("hello", 0),
        (")", 0),
        ("(", 1),
        ("#", 0),
        ("1", 1),
        ("hello", 0),
        (")", 1),
    ]


def test_a_field_that_was_printed_in_a_macro_keeps_its_place() -> None:
    template = HEADER + "{% for m in messages %}{{ head(m.role) + head(m.content) }}{% endfor %}"
    marked = render_marked(template, Request(MESSAGES))
    fields = [
        (marked[r.start : r.end].__str__(), r.origin.field, r.source) for r in marked._runs if not r.origin.literal
    ]
    assert fields == [("user", "role", 0), ("hello", "content", 0), ("assistant", "role", 0), ("<you>", "content", 0)]
