"""Whatever our code generator writes wrong shows: the plain render is not its work, so `exact` is false."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any, Final

import pytest
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spanparse import Rendering, TemplateSource, parse
from spanparse.rendering import environment
from spanparse.rendering.codegen import MarkingCodeGenerator

Method = Callable[..., Any]

MESSAGES: Final = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": ""}]
VALUES: Final = {"x": "zq"}
LOOP: Final = "{% for m in messages %}{{ m.role }}zq{% endfor %}"


def respelled(method: Method) -> Method:
    """The method, with the first `zq` in what it writes or returns in capitals."""

    def mutant(self: MarkingCodeGenerator, *args: Any, **kwargs: Any) -> Any:
        stream, self.stream = self.stream, StringIO()
        try:
            result = method(self, *args, **kwargs)
        finally:
            written, self.stream = self.stream.getvalue(), stream
        self.stream.write(written.replace("zq", "ZQ", 1))
        return result.replace("zq", "ZQ", 1) if isinstance(result, str) else result

    return mutant


def puts_out_more(method: Method) -> Method:
    """The method, with a statement behind it that puts something out."""

    def mutant(self: MarkingCodeGenerator, *args: Any) -> None:
        method(self, *args)
        self.writeline(f"{args[-1].buffer}.append('ZQ')")

    return mutant


def prints_otherwise(method: Method) -> Method:
    """The names that compiled code begins with, one of them for another function."""

    def mutant(self: MarkingCodeGenerator) -> None:
        method(self)
        self.writeline("text = repr")

    return mutant


def marks_otherwise(method: Method) -> Method:
    """A generator that is set up to write something else for each literal."""

    def mutant(self: MarkingCodeGenerator, *args: Any, **kwargs: Any) -> None:
        method(self, *args, **kwargs)
        self._output_text = lambda text: repr(text.upper())  # type: ignore[method-assign]

    return mutant


def reads_otherwise(method: Method) -> Method:
    """A tree that is another one once it was read."""

    def mutant(self: MarkingCodeGenerator, template: nodes.Template) -> None:
        method(self, template)
        template.body.reverse()

    return mutant


def says(code: str) -> Callable[[Method], Method]:
    """A method that writes nothing but `code`."""
    return lambda method: lambda self, *args, **kwargs: self.write(code)


MUTATIONS: Final[dict[str, tuple[Method, str]]] = {
    "__init__": (marks_otherwise, "zq"),
    "_find_unshown": (reads_otherwise, "{{ x }}{% set y = 1 %}-"),
    "_mark": (respelled, "{{ 'zq' | trim }}"),
    "_output_child_pre": (says("repr("), "{% block b %}{{ x }}{% endblock %}"),
    "_output_const_repr": (respelled, "{% block b %}zq{% endblock %}"),
    "_output_text": (respelled, "zq"),
    "_stated": (respelled, "{{ 'zq' }}"),
    "_write_concat": (respelled, "{{ x ~ 'zq' }}"),
    "_write_current": (puts_out_more, LOOP),
    "_write_entry": (puts_out_more, LOOP),
    "_write_nothing": (
        says("'ZQ'"),
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content if m.content else '' }}{% endfor %}",
    ),
    "_write_one": (respelled, "{{ x | replace('zq', 'a') }}"),
    "_write_output": (respelled, "{{ x | replace('zq', 'a') }}"),
    "_write_stated": (respelled, "zq"),
    "_write_sum": (respelled, "{{ 'zq' + x }}"),
    "_write_unshown": (
        puts_out_more,
        "{% for m in messages %}{% if m.content %}{{ m.content }}{% endif %}{% endfor %}",
    ),
    "blockvisit": (respelled, "zq"),
    "buffer": (puts_out_more, "{% set y %}{{ x }}{% endset %}{{ y }}"),
    "macro_body": (respelled, "{% macro f() %}zq{% endmacro %}{{ f() }}"),
    "visit": (respelled, "{{ x.replace('zq', 'a') }}"),
    "visit_Assign": (respelled, "{% set y = 'zq' %}{{ y }}"),
    "visit_Compare": (respelled, "{{ x == 'zq' }}"),
    "visit_Concat": (respelled, "{% set y = x ~ 'zq' %}{{ y }}"),
    "visit_CondExpr": (respelled, "{{ 'zq' if x else 'a' }}"),
    "visit_Const": (respelled, "{{ x | replace('zq', 'a') }}"),
    "visit_Filter": (respelled, "{{ 'zq' | trim }}"),
    "visit_FilterBlock": (respelled, "{% filter trim %}zq{% endfilter %}"),
    "visit_For": (respelled, LOOP),
    "visit_Getattr": (says("'ZQ'"), "{% for m in messages %}{{ m.content }}{% endfor %}"),
    "visit_Getitem": (respelled, "{{ {'zq': x}['zq'] }}"),
    "visit_If": (respelled, "{% if x %}zq{% endif %}"),
    "visit_Name": (says("'ZQ'"), "{{ [x] }}"),
    "visit_Or": (respelled, "{{ x | replace('zq', 'a') or '' }}"),
    "visit_Output": (respelled, "zq"),
    "visit_Template": (respelled, "zq"),
    "visit_ScopedEvalContextModifier": (respelled, "{% autoescape true %}zq{% endautoescape %}"),
    "visit_TemplateData": (respelled, "{% autoescape x %}zq{% endautoescape %}"),
    "visit_Test": (respelled, "{{ x is eq 'zq' }}"),
    "write_commons": (prints_otherwise, "{{ y }}"),
}


def overrides() -> Iterator[str]:
    for kind in MarkingCodeGenerator.__mro__:
        if kind.__module__.startswith("spanparse"):
            yield from (name for name, value in vars(kind).items() if callable(value))


def parsed(template: str) -> Rendering:
    environment._compile.cache_clear()
    source = TemplateSource("t", template, hashlib.sha256(template.encode()).hexdigest())
    return parse(source, MESSAGES, kwargs=VALUES)


@pytest.fixture(autouse=True)
def _nothing_stays_compiled() -> Iterator[None]:
    yield
    environment._compile.cache_clear()


def test_each_method_of_the_generator_has_a_mutation() -> None:
    assert sorted(overrides()) == sorted(MUTATIONS)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_of_the_generator_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, template = MUTATIONS[name]
    sound = parsed(template)
    assert sound.exact
    monkeypatch.setattr(MarkingCodeGenerator, name, mutate(vars(MarkingCodeGenerator)[name]))
    wrong = parsed(template)
    assert (wrong.exact, str(wrong.reason)) == (False, "render-differs")
    jinja = ImmutableSandboxedEnvironment().from_string(template)
    assert wrong.text == sound.text == jinja.render(messages=MESSAGES, **VALUES)
