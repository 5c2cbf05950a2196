"""Everything that the sandbox lets a template reach has a weight, or takes small operands only, by name."""

from __future__ import annotations

from typing import Any, Final

import pytest
from jinja2.filters import FILTERS
from jinja2.tests import TESTS
from markupsafe import Markup

from spanparse import Limits, Request, TemplateLimit, TemplateRefused, render_plain
from spanparse.bounds.costs import BYTES_METHODS, CONTAINER_METHODS, STRING_METHODS
from spanparse.marks.marked import Marked
from spanparse.marks.tracked import TrackedDict, TrackedList
from spanparse.rendering import filters
from spanparse.rendering.environment import ChatEnvironment, MarkingEnvironment

# Whose methods nobody weighed: they take small operands only.
ODD: Final[dict[type, set[str]]] = {
    str: {"maketrans"},
    Marked: {"maketrans"},
    Markup: {"maketrans", "striptags", "unescape", "escape"},
    dict: {"fromkeys"},
    TrackedDict: {"fromkeys"},
    list: set(),
    TrackedList: set(),
    tuple: set(),
    bytes: {name for name in dir(bytes) if not name.startswith("_")} - {"decode"},
}
# Bounded where they are called.
FORMATS: Final = {"format", "format_map"}
# They change what they belong to, which the sandbox refuses.
CHANGES: Final = {
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
}
ODD_FILTERS: Final = {
    *("filesizeformat", "pprint", "striptags", "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr")
}
GLOBALS: Final = {"cycler", "dict", "joiner", "lipsum", "namespace", "raise_exception", "range", "strftime_now"}


@pytest.mark.parametrize("kind", ODD, ids=lambda kind: kind.__name__)
def test_every_method_of_a_built_in_type_has_a_weight(kind: type) -> None:
    weighed = STRING_METHODS if issubclass(kind, str) else BYTES_METHODS if kind is bytes else CONTAINER_METHODS
    names = {name for name in dir(kind) if not name.startswith("_")} - FORMATS - CHANGES
    if kind is Marked:
        names = {name for name in names if hasattr(str, name)}  # the others are out of reach
    assert names - set(weighed) == ODD[kind]


@pytest.mark.parametrize(
    "call",
    [
        *("(2 ** 60000).to_bytes(n)", "(1.5).fromhex(s)", "b.split(b)", "range(99999).count('a')", "s.maketrans(s, s)"),
        *("({'a': 1}.keys() - []).union(l)", "{'a': 1}.keys().isdisjoint(l)", "{}.fromkeys(l)", "(s | e).unescape()"),
        *(
            "(s | e).striptags()",
            "(1).from_bytes(b)",
            "(1).from_bytes(l)",
            "{'a': s}.keys().mapping.copy().items() is odd",
        ),
    ],
)
def test_what_nobody_weighed_takes_small_operands_only(call: str) -> None:
    large = "{% set n = 99999 %}{% set s = 'ab' * n %}{% set b = s.encode() %}{% set l = [1] * n %}"
    with pytest.raises(TemplateLimit):
        render_plain(f"{large}{{{{ {call} }}}}", Request([]))


@pytest.mark.parametrize("environment", [ChatEnvironment(), MarkingEnvironment()], ids=["plain", "marking"])
def test_every_filter_test_and_function_has_a_weight(environment: ChatEnvironment) -> None:
    known = {name for name in environment.filters if not name.startswith("guard ")}
    weighed = {*filters._FILTERS, *filters._UNBOUNDED, *filters._TEXTUAL}
    assert known - weighed == ODD_FILTERS
    assert set(FILTERS) <= known
    assert set(environment.globals) == GLOBALS
    with_a_bound = {*filters._COMPARISONS, "in", "odd", "even", "divisibleby", "lower", "upper", "filter", "test"}
    assert set(TESTS) == set(environment.tests) == with_a_bound | filters._FREE_TESTS


def test_an_encoding_that_may_take_the_square_of_a_text_is_refused() -> None:
    for encoding in ("punycode", "idna", "unicode_escape", "utf-8" + "-" * 100):
        with pytest.raises(TemplateLimit, match="encodes in another way"):
            render_plain(f"{{{{ 'a'.encode('{encoding}') }}}}", Request([]))
        with pytest.raises(TemplateLimit, match="encodes in another way"):
            render_plain(f"{{{{ 'a'.encode().decode('{encoding}') }}}}", Request([]))
    assert render_plain("{{ 'é'.encode('UTF-8').decode('utf8') }}", Request([])) == "é"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ messages | map(attribute='function.name') | join(',') }}", "f,g"),
        ("{{ messages | sort(attribute='role,content') | map(attribute='content') | join }}", "ba"),
        ("{{ 'abc'.startswith(('x', 'ab')) }}", "True"),
        ("{{ 'abc'.translate({97: 'x', 98: none}) }}", "xc"),
        ("{{ ({'a': 1, 'b': 2}.keys() - ['a']) | list }}", "['b']"),
        ("{{ {1: 'a', (1, 2): 'b'}[(1, 2)] }}", "b"),
        ("{{ -(3) }}{{ 'a' in 'abc' }}{{ (2 ** 500) // (2 ** 499) }}", "-3True2"),
    ],
)
def test_what_is_small_is_what_it_always_was(template: str, text: str) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a", "function": {"name": "f"}},
        {"role": "assistant", "content": "b", "function": {"name": "g"}},
    ]
    assert render_plain(template, Request(messages)) == text


def test_a_template_that_does_more_in_a_step_is_looked_at_more_often() -> None:
    template = "{% for i in range(99999) %}" + "{% set x = i + 1 %}" * 3500 + "{% endfor %}"
    with pytest.raises(TemplateLimit, match=r"Limits\.seconds"):
        render_plain(template, Request([]), limits=Limits(seconds=0.5))


def test_a_refusal_is_not_a_limit() -> None:
    with pytest.raises(TemplateRefused):
        render_plain("{{ 'a'.encode(1) }}", Request([]))
