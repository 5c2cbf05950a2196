"""Sums are put out in parts, and the parts say no more and no less than the sum."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spanparse.rendering.test_render import USER

from spanparse import Limits, Request, TemplateLimit, TemplateRefused, render_plain
from spanparse.marks.marked import Marked
from spanparse.rendering.render import render_marked

MESSAGES: list[dict[str, Any]] = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]


def shown(marked: Marked) -> list[tuple[str, tuple[str | int, ...], bool]]:
    return [(marked[r.start : r.end].__str__(), r.origin.path, r.origin.literal) for r in marked._runs]


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' + x + 'b' }}",
        "{{ x + x + 'b' }}",
        "{{ 1 + 2 + 3 }}",
        "{{ 1 + 2.5 }}{{ [1] + [2] }}",
        "{{ 'a' + (x if x else 'c') + ('d' + x) }}",
        "{{ 'a' ~ 1 ~ x ~ none ~ [x] }}",
        "{{ ('<' | safe) + x + '<' }}{{ x + ('<' | escape) }}",
        "{{ 'a' + (x | upper) + x[1:] + x.strip('h') }}",
        "{% macro f(y) %}{{ '(' + y + ')' }}{% for m in messages %}{{ '-' }}{{ m.role }}{% endfor %}{% endmacro %}"
        "{{ f(x) + f('z') }}",
        "{% set b %}{{ 'a' + x }}{% endset %}{{ b }}{% filter upper %}{{ 'a' + x }}{% endfilter %}",
        "{% block one %}{{ 'a' + x }}{% endblock %}{{ self.one() }}",
        "{% for y in [x, x] recursive %}{{ loop.index ~ y }}{% endfor %}",
    ],
)
def test_both_renders_put_out_what_jinja_would_make_one_text_of(template: str) -> None:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    expected = ImmutableSandboxedEnvironment().from_string(template).render(messages=MESSAGES, x="hello")
    request = Request(MESSAGES, kwargs={"x": "hello"})
    assert render_plain(template, request) == expected
    assert render_marked(template, request) == expected


@pytest.mark.parametrize("sum_", ["'a' + 1", "1 + 'a'", "'a' + missing + 'b'", "'a' + none", "messages + 'a'"])
def test_a_sum_of_what_is_no_text_is_refused_as_ever(sum_: str) -> None:
    for render in (render_plain, render_marked):
        with pytest.raises(TemplateRefused):
            render("{{ " + sum_ + " }}", Request(USER))


def test_each_addend_comes_from_its_own_place() -> None:
    marked = render_marked("{% for m in messages %}{{ '[' + m.role + m.content + ']' }}{% endfor %}", Request(MESSAGES))
    assert shown(marked) == [
        entry
        for i, (role, content) in enumerate([("system", "be kind"), ("user", "hello")])
        for entry in (
            ("[", ("messages", i), True),
            (role, ("messages", i, "role"), False),
            (content, ("messages", i, "content"), False),
            ("]", ("messages", i), True),
        )
    ]


def test_text_that_a_macro_writes_in_a_loop_of_its_own_belongs_to_what_that_loop_holds() -> None:
    template = (
        "{% macro all() %}<{% for m in messages %}-{{ m.content }}{% endfor %}>{% endmacro %}"
        "{% for m in messages[:1] %}{{ all() }}{% endfor %}"
    )
    assert [
        (text, path[1:2]) for text, path, literal in shown(render_marked(template, Request(MESSAGES))) if literal
    ] == [
        ("<-", (0,)),
        ("-", (1,)),
        (">", (0,)),
    ]


def test_a_loop_that_writes_nothing_takes_no_memory() -> None:
    template = "{% for i in range(20000) %}{% if i < 0 %}x{% endif %}{% endfor %}done"
    assert render_marked(template, Request(USER), limits=Limits(memory=1 << 20)) == "done"


def test_a_loop_that_writes_without_end_does() -> None:
    template = "{% for i in range(20000) %}x{% endfor %}done"
    for render in (render_plain, render_marked):
        with pytest.raises(TemplateLimit, match="more than"):
            render(template, Request(USER), limits=Limits(memory=1 << 18))
