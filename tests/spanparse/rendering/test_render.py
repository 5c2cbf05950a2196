"""The environment is transformers', a marked render equals the plain one, and hostile templates are stopped."""

from __future__ import annotations

import datetime

import pytest

from spanparse.errors import TemplateError, TemplateLimit, TemplateRefused
from spanparse.marks.origin import GENERATION
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import Request, render_marked, render_plain

USER = [{"role": "user", "content": " hi <b>ß</b> "}]
LISTS = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]

SNIPPETS = {
    "trim_blocks and lstrip_blocks": "{% if true %}\n  x\n  {% endif %}\ny",
    "loop controls": "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}.",
    "tojson keeps non-ASCII and HTML": "{{ messages | tojson }}",
    "tojson with indent": "{{ messages | tojson(indent=2) }}",
    "string methods": "{{ messages[0].content.strip().upper().replace('B', '[') }}",
    "filters": "{{ messages[0].content | trim | replace('<b>', '*') | indent(3, true) }}",
    "join": "{{ messages | map(attribute='content') | join('--') }}",
    "tilde": "{{ 'a' ~ messages[0].content ~ 3 ~ none }}",
    "percent": "{{ '%s is %d' % (messages[0].role, 7) }}",
    "format filter": "{{ '%s!' | format(messages[0].role) }}",
    "str.format": "{{ '{}:{}'.format(messages[0].role, messages[0].content) }}",
    "namespace accumulation": "{% set ns = namespace(s='') %}{% for m in messages %}"
    "{% set ns.s = ns.s + m.content + '|' %}{% endfor %}{{ ns.s }}",
    "set block": "{% set x %}<{{ messages[0].content }}>{% endset %}{{ x | trim | length }}{{ x }}",
    "macro": "{% macro show(m) %}[{{ m.role }}]{{ m.content }}{% endmacro %}"
    "{% for m in messages %}{{ show(m) }}{% endfor %}",
    "call block": "{% macro wrap() %}<{{ caller() }}>{% endmacro %}"
    "{% call wrap() %}{{ messages[0].content }}{% endcall %}",
    "generation block": "{% generation %}{{ messages[0].content }}{% endgeneration %}",
    "printed containers": "{{ messages }} {{ messages[0] }}",
    "recursive loop": "{% for m in messages recursive %}{{ m.role }}{% endfor %}",
    "slices": "{{ messages[0].content[1:-1] }}{{ messages[0].content[::-1] }}{{ messages[::-1][0].role }}",
    "split": "{{ messages[0].content.split('<b>')[-1].split('</b>')[0] }}",
    "conditional expression": "{{ 'yes' if messages[0].content else 'no' }}{{ '' if false }}",
    "undefined prints nothing": "[{{ messages[0].nothing }}{{ missing }}]",
    "safe escapes what is joined to it": "{{ ('<i>' | safe) + messages[0].content }}{{ '<' + ('>' | safe) }}",
    "escape": "{{ messages[0].content | e }}{{ messages[0].content | escape | length }}{{ '<' | e | e | forceescape }}",
    "safe through tilde": "{{ '<' ~ (messages | tojson | safe) ~ '>' }}{{ messages[0].content | safe | trim }}",
    "string tests": "{{ messages[0].content is string }}{{ 'ß' in messages[0].content }}{{ messages[0] is mapping }}",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_marked_render_is_the_plain_render(name: str) -> None:
    request = Request(USER)
    plain = render_plain(SNIPPETS[name], request)
    marked = render_marked(SNIPPETS[name], request)
    assert str.__str__(marked) == plain
    assert [run.start for run in marked._runs] == [0, *[run.end for run in marked._runs][:-1]]


def test_a_null_field_of_a_message_is_undefined_to_the_template() -> None:
    template = "{{ messages[0].content is defined }}{{ messages[0] }}"
    request = Request([{"role": "assistant", "content": None}])
    assert render_plain(template, request) == "False{'role': 'assistant'}" == render_marked(template, request)


@pytest.mark.parametrize("field", ["reasoning_content", "thinking", "reasoning"])
def test_reasoning_is_found_under_the_names_that_templates_read_and_keeps_its_origin(field: str) -> None:
    template = "{{ messages[0].reasoning_content }},{{ messages[0].thinking }}"
    marked = render_marked(template, Request([{"role": "assistant", "content": "a", field: "why"}]))
    assert marked == "why,why"
    assert [run.origin.path for run in marked._runs if not run.origin.literal] == [("messages", 0, field)] * 2


def test_lists_print_as_python_does() -> None:
    assert render_plain("{{ messages[0].content }}", Request(LISTS)) == str(LISTS[0]["content"])
    assert render_marked("{{ messages[0].content }}", Request(LISTS)) == str(LISTS[0]["content"])


def test_origins_survive_a_macro_a_set_block_and_a_namespace() -> None:
    template = (
        "{% macro show(m) %}{{ '<' + m.content + '>' }}{% endmacro %}{% set ns = namespace(s='') %}"
        "{% for m in messages %}{% set part %}{{ show(m) }}{% endset %}{% set ns.s = ns.s ~ part %}{% endfor %}"
        "{{ ns.s }}"
    )
    marked = render_marked(template, Request([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]))
    assert marked == "<a><b>"
    assert [(run.origin.message, run.origin.literal) for run in marked._runs] == [
        (0, True),
        (0, False),
        (0, True),
        (1, True),
        (1, False),
        (1, True),
    ]


@pytest.mark.parametrize(
    "template",
    [
        "{% if add_generation_prompt %}GO{% endif %}",
        "{% if add_generation_prompt and messages %}GO{% endif %}",
        "{% if add_generation_prompt == true %}GO{% endif %}",
        "{% if false %}{% elif add_generation_prompt is true %}{{ 'GO' }}{% endif %}",
        "{{ 'GO' if add_generation_prompt else '' }}",
        "{% if add_generation_prompt | default(false) %}{% macro go() %}GO{% endmacro %}{{ go() }}{% endif %}",
    ],
)
def test_text_under_add_generation_prompt_is_marked_as_such(template: str) -> None:
    marked = render_marked(template, Request(USER))
    assert marked == "GO"
    assert {run.origin for run in marked._runs} == {GENERATION}


def test_the_clock_is_the_request_s() -> None:
    request = Request(USER, clock=datetime.datetime(2031, 2, 3))
    assert render_plain("{{ strftime_now('%d %b %Y') }}", request) == "03 Feb 2031"


def test_a_refusal_carries_the_template_s_words_and_the_message() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools\nhere') }}{% endif %}{% endfor %}"
    )
    messages = [*USER, {"role": "tool", "content": "x"}]
    with pytest.raises(
        TemplateRefused, match=r"t\.jinja: refuses this conversation at messages\[1\]: no tools here"
    ) as info:
        render_marked(template, Request(messages), name="t.jinja")
    assert info.value.message == 1


@pytest.mark.parametrize("template", ["{{ messages[0].content + 1 }}", "{{ messages[9].content }}", "{{ none.x.y }}"])
def test_python_s_complaints_become_refusals(template: str) -> None:
    with pytest.raises(TemplateRefused):
        render_plain(template, Request(USER))


def test_a_broken_template_names_the_line() -> None:
    with pytest.raises(TemplateError, match=r"bad: line 2"):
        render_plain("\n{% if %}", Request(USER), name="bad")


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].content._runs.append }}",
        "{{ messages[0]._origin.path.x }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
    ],
)
def test_the_sandbox_holds_in_both_renders(template: str) -> None:
    for render in (render_plain, render_marked):
        with pytest.raises(TemplateRefused):
            render(template, Request(USER))


def test_an_endless_loop_is_cut_off_by_the_clock() -> None:
    template = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    for render in (render_plain, render_marked):
        with pytest.raises(TemplateLimit, match="still rendering after"):
            render(template, Request(USER), limits=Limits(seconds=0.2))


def test_a_text_past_the_size_limit_is_cut_off() -> None:
    template = "{% for a in range(9999) %}0123456789{% endfor %}"
    with pytest.raises(TemplateLimit, match="longer than 5,000 characters"):
        render_plain(template, Request(USER), limits=Limits(characters=5000))


def test_runaway_recursion_is_refused() -> None:
    with pytest.raises(TemplateLimit, match="RecursionError"):
        render_plain("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", Request(USER))


def test_an_oversized_template_is_refused_before_it_is_compiled() -> None:
    with pytest.raises(TemplateLimit, match="characters, more than"):
        render_plain("x" * 3_000_000, Request(USER))


def test_what_python_cannot_compile_is_said_in_its_words() -> None:
    with pytest.raises(TemplateError, match=r"cannot be compiled: 'break' outside loop$") as raised:
        render_plain("{% break %}", Request(USER))
    assert not isinstance(raised.value, TemplateLimit)
