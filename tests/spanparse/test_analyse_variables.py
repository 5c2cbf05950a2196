"""Which variables a template reads from its caller."""

from __future__ import annotations

from typing import Any

import pytest

from spanparse import TemplateError
from spanparse.analysis.variables import variables_of


def names(template: str) -> list[str]:
    return [read.name for read in variables_of(template, name="test")]


def constants(template: str, name: str) -> tuple[Any, ...]:
    (read,) = [read for read in variables_of(template, name="test") if read.name == name]
    return read.constants


@pytest.mark.parametrize(
    "template",
    [
        "{% if thinking %}x{% endif %}",
        "{{ thinking }}",
        "{% set on = thinking | default(true) %}{{ on }}",
        "{% if thinking is not defined %}{% set thinking = true %}{% endif %}{{ thinking }}",
        "{% macro say() %}{{ thinking }}{% endmacro %}{{ say() }}",
        "{% macro f() %}{% if not thinking %}{% set thinking = 1 %}{% endif %}{{ thinking }}{% endmacro %}{{ f() }}",
        "{% for m in messages %}{{ m.content ~ thinking }}{% endfor %}",
        "{% set kept %}{{ thinking }}{% endset %}{{ kept }}",
        "{% filter upper %}{{ thinking }}{% endfilter %}",
        "{% with a = thinking %}{{ a }}{% endwith %}",
        "{% for m in messages %}{% set thinking = 1 %}{% endfor %}{{ thinking }}",
    ],
)
def test_what_is_read_before_it_is_set_comes_from_the_caller(template: str) -> None:
    assert names(template) == ["thinking"]


@pytest.mark.parametrize(
    "template",
    [
        "{% set text = 'a' %}{{ text }}",
        "{% if messages %}{% set text = 'a' %}{% else %}{% set text = 'b' %}{% endif %}{{ text }}",
        "{% if messages %}{% set text = 'a' %}{% endif %}{{ text }}",
        "{% for m in messages %}{{ loop.index }}{{ m }}{% endfor %}",
        "{% for key, value in tools[0].items() %}{{ key }}{{ value }}{% endfor %}",
        "{% macro say(text) %}{{ text }}{{ caller() }}{{ varargs }}{% endmacro %}{{ say('a') }}",
        "{% set found = 'a' %}{% macro say() %}{{ found }}{% endmacro %}{{ say() }}",
        "{% macro say() %}{{ found }}{% endmacro %}{% set found = 'a' %}{{ say() }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}",
        "{{ raise_exception('x') }}{{ strftime_now('%Y') }}{{ range(3) }}",
        "{{ messages }}{{ tools }}{{ add_generation_prompt }}",
    ],
)
def test_what_the_template_sets_itself_does_not(template: str) -> None:
    assert names(template) == []


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{% if effort == 'high' %}{% endif %}", ("high",)),
        ("{% if 'high' == effort %}{% endif %}", ("high",)),
        ("{% if effort in ['low', 'high'] %}{% endif %}", ("low", "high")),
        ("{% if effort | lower == 'max' %}{% endif %}", ("max",)),
        ("{% if effort.strip() == 'max' %}{% endif %}", ("max",)),
        ("{% if effort > 3 %}{% endif %}", (3,)),
        ("{% set mode = effort or 'low' %}{% if mode == 'high' %}{% endif %}", ("high",)),
        ("{% set mode = effort if effort else 'low' %}{% if mode == 'high' %}{% endif %}", ("high",)),
        ("{{ effort }}{% if messages[0].role == 'user' %}{% endif %}", ()),
        ("{% if effort == true %}{% endif %}", ()),
    ],
)
def test_the_values_that_a_variable_is_compared_with(template: str, found: tuple[Any, ...]) -> None:
    assert constants(template, "effort") == found


@pytest.mark.parametrize(
    ("template", "is_container"),
    [
        ("{% for d in documents %}{{ d }}{% endfor %}", True),
        ("{{ documents[0] }}", True),
        ("{% set found = documents or [] %}{% for d in found %}{{ d }}{% endfor %}", True),
        ("{{ documents }}", False),
    ],
)
def test_what_is_looped_over_or_subscripted_is_a_container(template: str, is_container: bool) -> None:
    (read,) = variables_of(template, name="test")
    assert read.is_container is is_container


def test_a_template_that_does_not_compile_is_refused() -> None:
    with pytest.raises(TemplateError, match="broken"):
        variables_of("{% if %}", name="broken")
