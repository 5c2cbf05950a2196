"""What a plain render returns is written by Jinja's own compiler; guards are asked and change nothing."""

from __future__ import annotations

import pytest
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer
from tests.audit.corpus import bundled, published, sample

from spanparse import Limits, Request, TemplateLimit, TemplateRefused, render_plain
from spanparse.bounds.guards import GUARDS, _Guarding, unguarded
from spanparse.rendering.environment import ChatEnvironment, variables_read

USER = [{"role": "user", "content": "hello"}]
LONG = "{% set x = 'x' * 50000 %}"


class _Stripping(NodeTransformer):
    """Takes guards out again, by their names, and undoes the groups of `~`."""

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return node.node if node.name in GUARDS and node.node is not None else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [p for part in node.nodes for p in (part.nodes if isinstance(part, nodes.Concat) else [part])]
        return node

    def visit_Or(self, node: nodes.Or) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return node.right if isinstance(node.left, nodes.EnvironmentAttribute) else node

    def visit_ExprStmt(self, node: nodes.ExprStmt) -> nodes.Node | None:  # noqa: N802
        self.generic_visit(node)
        return None if isinstance(node.node, nodes.EnvironmentAttribute) else node


def same_without_guards(template: str) -> bool:
    environment = ChatEnvironment()
    return bool(_Stripping().visit(environment.tree(template)) == _Stripping().visit(environment.parse(template)))


def test_plain_text_is_compiled_by_jinja_s_own_generator() -> None:
    assert ChatEnvironment.code_generator_class is CodeGenerator


TEMPLATES = [
    "{% for a in range(9) if a is odd %}{{ loop.index ~ a }}{% else %}none{% endfor %}",
    "{{ 1 < 2 < x | length < 9 }}{{ 'l' in x in [x] }}{{ x in [x] }}{{ y not in 'abc' }}{{ 1 < 2 in [2] }}",
    "{{ 'a' ~ x ~ 1 ~ [x] ~ none ~ y ~ 2 * 3 }}{{ x + 'b' + x + 'c' + x }}{{ 1 + 2 + z + 4 - -z }}",
    "{{ 'a' ~ ('<' | safe) ~ x ~ '>' }}{{ x ~ '<' ~ ('&' | e) ~ y ~ '<' }}{{ ('<' | safe) + y + '<' }}",
    "{% autoescape x == y %}{{ y }}{{ '<' ~ y ~ 1 }}{% endautoescape %}{{ '<' }}",
    "{% autoescape true %}{{ y }}{{ [y] }}{{ '<' ~ (y | safe) }}{{ 5 }}{{ none }}{% endautoescape %}",
    "{{ {x: 1, (x, 1): 2}[x] }}{{ [x, y][z - 1] }}{{ x[1:][::-1] }}{{ dict(a=1, **{'b': 2}) }}",
    "{% set f = '%s-%s' %}{{ f.replace(*['s', 'd', 1]) }}{{ [x] | join(*['-']) }}{{ '%s' % x }}",
    "{% macro f(a=2) %}{{ a }}{{ caller() }}{% endmacro %}{% call f(1) %}{{ x }}{% endcall %}",
    "{{ [1, 2] | map('string') | join }}{{ [y] | map('e') | first + '<' }}{{ y | default('<') }}",
    "{% filter upper %}{{ x }}{% for c in x %}{{ c }}{% endfor %}{% endfilter %}"
    "{% set t | trim %} {{ x }} {% endset %}{{ t }}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_guards_change_nothing(template: str) -> None:
    values = {"x": "hello", "y": "<&>", "z": 2}
    expected = ImmutableSandboxedEnvironment().from_string(template).render(**values)
    assert render_plain(template, Request(USER, kwargs=values)) == expected


def test_a_tree_without_its_guards_is_the_one_that_jinja_reads() -> None:
    texts = [*TEMPLATES, *(template.text for template in [*sample(published(), 40), *bundled()])]
    assert [text for text in texts if not same_without_guards(text)] == []


@pytest.mark.parametrize("name", [name for name in vars(_Guarding) if name.startswith("visit_")])
def test_a_mutation_of_what_puts_guards_in_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = vars(_Guarding)[name]

    def mutant(self: _Guarding, node: nodes.Node) -> nodes.Node:
        guarded: nodes.Node = original(self, node)
        inner = unguarded(guarded)
        for field, value in inner.iter_fields():
            if isinstance(value, nodes.Expr):
                setattr(inner, field, nodes.Const("mutant"))
            elif isinstance(value, list):
                value.clear()
        return guarded

    monkeypatch.setattr(_Guarding, name, mutant)
    assert not all(map(same_without_guards, TEMPLATES))


@pytest.mark.parametrize("name", sorted(GUARDS))
def test_no_template_can_use_a_guard(name: str) -> None:
    assert render_plain("{{ '" + name + "' is filter }}", Request(USER)) == "False"
    with pytest.raises(TemplateRefused, match="No filter named"):
        render_plain("{{ [1] | map('" + name + "') | list }}", Request(USER))


@pytest.mark.parametrize(
    "operation",
    ["x ~ x", "x + x", "x * 2", "'%s' % (x,)", "[x] | string", "x[1:]", "x | upper", "'%99999d' % 1", "[1] * 9999999"],
)
def test_what_makes_a_long_value_is_refused(operation: str) -> None:
    with pytest.raises(TemplateLimit):
        render_plain(LONG + "{% set y = " + operation + " %}", Request(USER), limits=Limits(characters=49_000))


@pytest.mark.parametrize("template", ["{{ 'a' * 10 ** 10 }}", "{% autoescape 2 ** 99999 %}{% endautoescape %}"])
def test_nothing_is_worked_out_while_a_template_compiles_that_the_render_refuses(template: str) -> None:
    assert variables_read(template, "t") == frozenset()
    with pytest.raises(TemplateLimit):
        render_plain(template, Request(USER))


def test_what_is_escaped_counts_before_it_is() -> None:
    template = LONG + "{% autoescape true %}{% for i in range(99) %}{{ x }}{% endfor %}{% endautoescape %}"
    with pytest.raises(TemplateLimit, match="memory"):
        render_plain(template, Request(USER), limits=Limits(memory=16 << 20))
