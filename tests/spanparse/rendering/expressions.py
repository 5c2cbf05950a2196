"""Random expressions over all that a request holds: every method of a text, every filter and operator, in chains."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from spanparse.rendering.environment import ChatEnvironment

Message = dict[str, Any]

METHODS: Final = {
    "center": ["(9)", "(9, {other})", "(30, '-')"],
    "count": ["({other})"],
    "encode": ["()", "('ascii', 'replace')", "('utf-16')"],
    "endswith": ["({other})"],
    "expandtabs": ["()", "(3)"],
    "find": ["({other})"],
    "format": ["()", "({other})", "(a={other})"],
    "format_map": ["({{'a': {other}}})"],
    "index": ["('')"],
    "join": ["([{other}, {value}])", "({other})", "(messages[0])"],
    "ljust": ["(9)", "(9, '-')"],
    "maketrans": ["('ab', '12')", "({{'a': {other}}})"],
    "partition": ["('|')", "({other})"],
    "removeprefix": ["('a')"],
    "removesuffix": ["('a')"],
    "replace": ["('a', {other})", "('', '-')", "({other}, '1')", "({other}, {value}, 1)"],
    "rfind": ["({other})"],
    "rindex": ["('')"],
    "rjust": ["(9)", "(20, '-')"],
    "rpartition": ["('|')"],
    "rsplit": ["()", "('|', 1)"],
    "split": ["()", "('|')", "({other})"],
    "startswith": ["({other})"],
    "strip": ["()", "({other})"],
    "translate": ["({{97: {other}, 946: 'xy', 1073: none}})", "({{945: 946}})"],
    "zfill": ["(12)"],
}
"""How a method of `str` is called, where not without arguments."""

FILTERS: Final = {
    "attr": ["('content')"],
    "batch": ["(2)", "(2, {other})"],
    "center": ["(20)"],
    "d": ["({other})"],
    "default": ["({other}, true)"],
    "dictsort": ["", "(by='value')"],
    "format": ["({other})", "(a={other})"],
    "groupby": ["('role')", "('content')"],
    "indent": ["", "(2, true, true)", "({other})"],
    "join": ["", "({other})", "('-', attribute='content')"],
    "map": ["('title')", "(attribute='content')", "('string')"],
    "reject": ["('none')"],
    "rejectattr": ["('nothing')"],
    "replace": ["('a', {other})", "({other}, '1')"],
    "round": ["(1)"],
    "select": ["('string')"],
    "selectattr": ["('content')"],
    "slice": ["(2)", "(2, {other})"],
    "sort": ["", "(attribute='content')"],
    "sum": ["", "(start=[])"],
    "tojson": ["", "(indent=2)", "(separators=({other}, ':'))", "(ensure_ascii=true)"],
    "truncate": ["(5, true)", "(9, false, {other}, 0)", "(6, true, '..', 0)"],
    "urlize": ["", "(5)", "(none, true, {other})"],
    "wordwrap": ["(3)", "(4, true, '\n')", "(4, true, {other})"],
    "xmlattr": ["", "(false)"],
}
"""How a filter is called, where not without arguments."""

OPERATIONS: Final = [
    *(
        f"({{value}}).{name}{call}"
        for name in dir(str)
        if not name.startswith("_")
        for call in METHODS.get(name, ["()"])
    ),
    *(f"({{value}}) | {name}{call}" for name in sorted(ChatEnvironment()._bounded) for call in FILTERS.get(name, [""])),
    *(f"({{value}}) {operator} ({{other}})" for operator in ("+", "~", "-", "*", "/", "//", "%", "**", "and", "or")),
    *(
        "({value}) * 2",
        "-({value})",
        "({value})[1:]",
        "({value})[::-2]",
        "({value})[0]",
        "({value}) if {other} else ''",
    ),
    *(
        "'%s-%s' % ({value}, {other})",
        "'%5s|%r' % ({value}, {other})",
        "'%(a)s' % {{'a': {value}}}",
        "'%d' % ({value})",
    ),
    *(
        "'%s' % [{value}]",
        "'{{}}-{{}}'.format({value}, {other})",
        "'{{:.3}}'.format({value})",
        "'{{!r}}'.format({value})",
    ),
    *("'{{a}}{{a}}'.format(a={value})", "'{{0[0]}}'.format([{value}])", "'{{:{{}}}}'.format({value}, {other})"),
    *("[{value}, {other}]", "({value}, 1)", "{{'a': {value}}}", "{{{value}: {other}}}", "{{'a': 1, {value}: {other}}}"),
    *("dict(a={value})", "dict([({value}, {other})])", "namespace(a={value})", "namespace(a={value}).a", "[[{value}]]"),
    *(
        "cycler({value}, {other}).next()",
        "cycler({value})",
        "joiner({value})",
        "strftime_now({value})",
        "range({value})",
    ),
    *("dict.fromkeys({value})", "{{'a': {value}}}.items()", "{{'a': {value}}}.values()", "{{{value}: 1}}.keys()"),
    *("messages[0].keys() - {value}", "messages[0].items()", "messages[1:]", "messages", "tools", "documents"),
    *(
        "({value}).items()",
        "({value}).get('content', {other})",
        "({value}).content",
        "({value}).copy()",
        "({value}).real",
    ),
    *(
        "'<|' ~ ({value}) ~ '|>'",
        "'<|' + ({value}) + '|>'",
        "'-'.join(({value}).split('|'))",
        "({value}) | list | string",
    ),
    *(
        "twice({value})",
        "twice({value} | safe)",
        "({value} | safe)[1:]",
        "({value} | safe) ~ {other}",
        "({value} | e).upper()",
    ),
    *("{{'a': '|', 'b': {value}}}['b']", "(({value}) | string).upper()", "{{'n': 1, 't': {value}}} | tojson"),
    *(
        "[{value}, 1, none] | tojson",
        "({value}).unknown",
        "messages | map('items') | map('first') | urlencode",
        "[{value} | safe] | tojson",
        "[({value} ~ {other})] | string",
    ),
]

ATOMS: Final = [
    "messages[0].content",
    "messages[1].content",
    "messages[1].reasoning_content",
    "messages[1].content ~ messages[0].content",
    "messages[1].tool_calls[0].function.name",
    "messages[1].tool_calls[0].function.arguments",
    "messages[1].tool_calls[0].function.arguments.city",
    "messages[1].tool_calls[0].id",
    "messages[0].note",
    "messages[0].name",
    "messages[2].content",
    "messages[2].content[0].text",
    "messages[0]",
    "messages[1].tool_calls",
    "tools",
    "tools[0].function.description",
    "documents",
    "documents[0].text",
    "wish",
    "'|<a>|'",
    "' 12 '",
    "5",
]


def expressions() -> st.SearchStrategy[str]:
    """Expressions of up to three operations, one on the result of the other."""
    atoms = st.sampled_from(ATOMS)
    chains = st.tuples(atoms, st.lists(st.tuples(st.sampled_from(OPERATIONS), atoms), min_size=1, max_size=3))

    def written(chain: tuple[str, list[tuple[str, str]]]) -> str:
        value, steps = chain
        for operation, other in steps:
            value = operation.format(value=value, other=other)
        return value

    return chains.map(written)


def request(texts: dict[str, str]) -> tuple[list[Message], dict[str, Any]]:
    """Messages and what else `parse` takes, with a text of `texts` in each field of `ATOMS`: names say in which."""
    call = {
        "id": texts["id"],
        "type": "function",
        "function": {"name": texts["call"], "arguments": {"city": texts["city"]}},
    }
    messages: list[Message] = [
        {"role": "user", "content": texts["content"], "note": texts["note"], "name": texts["name"]},
        {
            "role": "assistant",
            "content": texts["answer"],
            "reasoning_content": texts["reasoning"],
            "tool_calls": [call],
        },
        {"role": "user", "content": [{"type": "text", "text": texts["part"]}]},
    ]
    tools = [{"type": "function", "function": {"name": "f", "description": texts["tool"], "parameters": {}}}]
    return messages, {"tools": tools, "kwargs": {"documents": [{"text": texts["document"]}], "wish": texts["wish"]}}


NAMES: Final = (
    "content",
    "note",
    "name",
    "answer",
    "reasoning",
    "id",
    "call",
    "city",
    "part",
    "tool",
    "document",
    "wish",
)

MACRO: Final = "{% macro twice(x) %}{{ x }}|{{ x }}{% endmacro %}"
SHAPES: Final = [
    "{% for m in messages %}<|{{ m.role }}|>{{ EXPR }}<|end|>{% endfor %}",
    "{% set kept = EXPR %}{% for m in messages %}<|{{ m.role }}|>{{ kept }}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{% set kept %}{{ EXPR }}{% endset %}{{ kept }}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{% for x in EXPR %}{{ x }};{% endfor %}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{% call(x) twice(EXPR) %}{{ x }}{% endcall %}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{% filter upper %}{{ EXPR }}{% endfilter %}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{% filter wordwrap(40) %}{{ EXPR }}{% endfilter %}<|end|>{% endfor %}",
    "{% for m in messages %}{% autoescape true %}{{ twice(EXPR) }}{% endautoescape %}<|end|>{% endfor %}",
]
