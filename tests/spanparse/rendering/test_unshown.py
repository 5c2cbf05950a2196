"""Where a template puts out an empty text, or would if it were not empty, a marked render knows the place."""

from __future__ import annotations

from typing import Any

import pytest

from spanparse.rendering.render import Request, render_marked, render_plain

LOOP = "{{% for m in messages %}}<{}>{{% endfor %}}"

SHOWN = {
    "put out": "{{ m.content }}",
    "stripped": "{{ m.content.strip() }}{{ m.content | trim }}",
    "added to": "{{ '[' + m.content + ']' }}",
    "set before": "{% set c = m.content %}[{{ c }}]",
    "of a macro": "{% macro show(c) %}{{ c }}{% endmacro %}[{{ show(m.content) | trim }}]",
    "or nothing": "{{ m.content or '' }}",
    "or by default": "{{ m.content | default('', true) }}{{ m.content | d('', true) }}",
    "if it is one": "{% if m.content %}{{ m.content }}{% endif %}",
    "if it is long": "{% if m.content | trim | length > 0 %}{{ m.content }}{% endif %}",
    "if it is none of the empty": "{% if m.content != '' %}{{ m.content }}{% endif %}",
    "if a stripped one is there": "{% if m.content.strip() %}{{ m.content }}{% endif %}",
    "if it is a text": "{% if m.content is string and m.content %}{{ m.content }}{% endif %}",
    "if it is of a message": "{% if m and m.content %}{{ m.content }}{% endif %}",
    "with a guard behind it": "{% if m.content and m is mapping %}{{ m.content }}{% endif %}",
    "deeper in a condition": "{% if m.content %}{% if m %}{{ m.content }}{% endif %}{% endif %}",
    "inline": "{{ m.content | trim if m.content else '' }}",
    "else another": "{% if m.content %}{{ m.content }}{% elif m.name %}{{ m.name }}{% endif %}",
    "asked beforehand": "{% set has = m.content and m.content.strip() %}{% if has %}{{ m.content }}{% endif %}",
    "set to the first of several": (
        "{% set c = m.get('content') or m.get('x') %}{% if c %}{{ c }}{% endif %}"
        "{% if not m %}{% set c = m.get('content') or m.get('x') %}{% endif %}"
    ),
    "set to nothing": "{% if m.content %}{% set c = m.content %}{% else %}{% set c = '' %}{% endif %}{{ c }}",
    "of a macro's own": (
        "{% macro f(x) %}{% set has = x | length > 0 %}{% if has %}{{ x }}{% endif %}{% endmacro %}{{ f(m.content) }}"
    ),
    "split": "{{ m.content.split('x')[0] }}",
    "joined": "{{ ([m.content] | join('-')) }}",
    "replaced": "{{ m.content.replace('x', 'y') }}",
}

NOT_SHOWN = {
    "stated": "{{ '' }}",
    "another's": "{% if m.name %}{{ m.content }}{% endif %}{{ m.name }}",
    "missing": "{% if m.name %}{{ m.name }}{% endif %}",
    "only asked for": "{% if m.content %}[]{% endif %}",
    "with something else instead": "{% if m.content %}{{ m.content }}{% else %}none{% endif %}",
    "for another reason": "{% for i in [1, 2] %}{% if m.content and not loop.last %}{% endif %}{% endfor %}",
    "of another scope": (
        "{% set has = m.content | length > 0 %}{% macro f() %}{% if has %}{{ m }}{% endif %}{% endmacro %}{{ f() }}"
    ),
    "with a header of its own": "{% if m.content %}{{ '[' + m.content + ']' }}{% endif %}",
    "between others": "{% if m.content %}[{{ m.content }}]{% endif %}",
    "called": "{% macro f() %}{% endmacro %}{% if f() and m.content %}{{ m.content }}{% endif %}",
}


def places(body: str, message: dict[str, Any]) -> list[int]:
    """The offsets of the runs without characters, all of which are the content's."""
    request = Request([message])
    marked = render_marked(LOOP.format(body), request)
    assert marked == render_plain(LOOP.format(body), request)
    empty = [run for run in marked._runs if run.start == run.end]
    assert all(run.origin.path == ("messages", 0, "content") for run in empty)
    return [run.start for run in empty]


@pytest.mark.parametrize("name", SHOWN)
def test_an_empty_text_has_a_place(name: str) -> None:
    assert places(SHOWN[name], {"role": "user", "content": ""})


@pytest.mark.parametrize("name", SHOWN)
def test_a_text_has_no_other_place_than_its_own(name: str) -> None:
    assert not places(SHOWN[name], {"role": "user", "content": "ab"})


@pytest.mark.parametrize(
    "name", ["stripped", "if it is long", "if a stripped one is there", "inline", "asked beforehand"]
)
def test_so_has_white_space_of_which_nothing_is_left(name: str) -> None:
    assert places(SHOWN[name], {"role": "user", "content": " \n"})


@pytest.mark.parametrize("name", NOT_SHOWN)
def test_what_is_not_put_out_has_none(name: str) -> None:
    message = {"role": "user", "content": ""}
    if name == "another's":
        message["name"] = "x"
        assert places(NOT_SHOWN[name], message) == [1]
    else:
        assert not places(NOT_SHOWN[name], message)


def test_a_text_has_one_place_where_all_holds_but_that_it_is_not_empty() -> None:
    body = "{% for i in [1, 2] %}.{% if m.content and loop.last %}{{ m.content }}{% endif %}{% endfor %}"
    assert places(body, {"role": "user", "content": ""}) == [3]
    body = "{% for i in [1, 2] %}.{% if loop.first and m.content %}{{ m.content }}{% endif %}{% endfor %}"
    assert places(body, {"role": "user", "content": ""}) == [2]
