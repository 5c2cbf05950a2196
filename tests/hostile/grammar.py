"""Templates put together at random of everything that a template can do, with operands as large as it can make them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from jinja2.filters import FILTERS
from jinja2.tests import TESTS

# What the expressions are about. `«n»` is a number that says how large.
PRELUDE: Final = (
    "{% set x = 'ab <é' * «n» %}{% set y = x[:-9] ~ 'b' ~ x[-8:] %}{% set c = messages[0].content * («n» // 9) %}"
    "{% set l = [x[:5], 'b', 1.5] * («n» // 7) %}{% set r = range(«m») %}{% set t = (1, 'a') * («n» // 5) %}"
    "{% set d = {'a': l, 'b': {'c': x}, 3: t} %}{% set N = namespace(s=x, l=[], n=«n», t=()) %}"
    "{% set w = ([messages[0].content[:1], 'b'] * («n» // 20)) | join %}{% set k = [2**61 - 1] * 99 %}"
    "{% macro f(a, b=2) %}{{ a }}{% if b %}{{ f(a, b - 1) }}{{ f(a, b - 1) }}{% endif %}{% endmacro %}"
)
_SIZES: Final = (10, 1_000, 16_000, 300_000, 3_000_000, 50_000_000)
_METHODS: Final = {
    "text": [name for name in dir(str) if not name.startswith("_")],
    "list": [name for name in dir(list) + dir(tuple) if not name.startswith("_")],
    "dict": [name for name in dir(dict) if not name.startswith("_")],
    "other": [
        name
        for kind in (int, float, bytes, range, set, type({}.keys()))
        for name in dir(kind)
        if not name.startswith("_")
    ],
}
_ATOMS: Final[dict[str, list[str]]] = {
    "text": [
        "x",
        "y",
        "c",
        "w",
        "'a'",
        "''",
        "('a' * @)",
        "x[:@]",
        "N.s",
        "messages[0].content",
        "('%s{}' * @)",
        "(x | e)",
    ],
    "list": [
        "l",
        "t",
        "r",
        "k",
        "[x, y]",
        "N.l",
        "[l] * @",
        "(y,) * @",
        "d.values()",
        "d.items()",
        "d.keys()",
        "messages",
    ],
    "dict": ["d", "{'a': x}", "dict(a=l)", "messages[0]", "{1: l, (1, 2): x}"],
    "number": ["@", "(2 ** @)", "(-@)", "1.5", "(@ * @)", "('f' * @) | int(0, 16)", "(10 ** 4000)", "0", "1"],
    "other": [
        "N",
        "x.encode()",
        "d.keys()",
        "range(@)",
        "(d.keys() - l)",
        "none",
        "missing",
        "f",
        "joiner(x)",
        "cycler(x, y)",
        "messages[0].get",
        "d.keys().mapping",
        "x.upper",
        "(l | map('string'))",
    ],
}
_OPERATORS: Final = ("+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", "in", "not in", "and", "or")
_PATHS: Final = ("'real'", "'real.' * @ ~ 'real'", "'real,' * @ ~ 'real'", "'a.b.c'", "0", "x")
_STATEMENTS: Final = (
    "{{ «any» }}",
    "{{ («any») | length }}",
    "{% set z = «any» %}",
    "{% set x = «text» %}",
    "{% set l = «list» %}",
    "{% set N.s = «text» %}",
    "{% set N.l = [N.l, «any»] %}",
    "{% set N.l = [N] * 99 %}",
    "{% set N.t = (N.t, N.t) %}",
    "{% if «any» == «any» %}{{ «text» }}{% endif %}",
    "{% for i in «list» %}«statement»{% endfor %}",
    "{% for i in r %}«statement»«statement»{% endfor %}",
    "{% for i in r if «any» %}{% endfor %}",
    "{% for i in [r, r] recursive %}{{ loop(i) if i is sequence }}{% endfor %}",
    "{% for i in r %}{% for j in r %}«statement»{% endfor %}{% endfor %}",
    "{% set z %}«statement»{% endset %}",
    "{% filter «filter» %}«statement»{% endfilter %}",
    "{% autoescape true %}{{ «text» ~ «any» }}{% endautoescape %}",
    "{{ f(«any», «number») }}",
    "{{ f(*«list») }}",
    "{% call f(«text») %}«statement»{% endcall %}",
    "{% set N.n = N.n * N.n %}{{ N.n }}",
)
# What only goes wrong with operands that fit: a path with an attribute, a tuple of texts with a text.
_FITTING: Final = (
    "{{ r | «attributed»(attribute='real.' * @ ~ 'real') | string | length }}",
    "{{ r | «attributed»(attribute='real,' * @ ~ 'real') | string | length }}",
    "{{ r | selectattr('real.' * @ ~ 'real') | list | length }}",
    "{{ x.«ends»((y,) * @) }}",
    "{{ «text».translate([«text»] * 200) | length }}",
    "{{ ({}.keys() - range(0, 99999 * (2**61 - 1), 2**61 - 1)) | length }}",
    "{{ range(0, 99999 * (2**61 - 1), 2**61 - 1) | unique | list | length }}",
    "{% set N.l = [N] * @ %}{{ '{0}'.format([N, N.l]) | length }}",
    "{% for i in r %}{% set N.t = (N.t,) %}{% endfor %}{{ ({}.keys() - [N.t]) | length }}{{ N.t == N.t }}",
    "{% for i in r %}«many»{% endfor %}",
    "{{ w.replace('b', 1 | string) | length }}",
    "{{ ([d.keys().mapping] * @) | string | length }}",
    "{{ ([messages[0].get] * @) | string | length }}",
    "{{ ('éa' * @).encode('«codec»') | length }}",
)
_MANY: Final = (
    "{% set q = x[:16000].«case»() %}",
    "{% set q = x[:16000].find(y[-4000:]) %}",
    "{% set q = (2 ** 60000) // 3 ** 9000 %}",
    "{% set q = x[:9000] | «odd» %}",
    "{% set q = lipsum(@, false, 90, 99) %}",
    "{% set q = (l[:2000] | sort | first) %}",
    "{% set q = {" + ", ".join(f"{n * (2**61 - 1)}: n" for n in range(1, 200)) + "} %}",
)
_FILLS: Final = {
    "attributed": ("map", "max", "min", "sort", "sum", "unique", "groupby", "join"),
    "ends": ("startswith", "endswith"),
    "codec": ("utf-8", "punycode", "idna", "utf-7", "unicode_escape"),
    "case": ("upper", "lower", "title", "casefold", "swapcase"),
    "odd": ("urlize", "striptags", "wordwrap", "pprint", "urlencode", "wordcount", "truncate"),
}


class Grammar:
    """Makes templates out of one source of random numbers."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def template(self) -> str:
        """One template."""
        pick = self._random.choice
        prelude = PRELUDE.replace("«n»", str(pick(_SIZES))).replace("«m»", str(pick((9, 3_000, 99_999))))
        return prelude + "".join(self._statement(3) for _ in range(pick((1, 2, 4))))

    def _statement(self, depth: int) -> str:
        form = self._random.choice(_FITTING if self._random.random() < 0.3 else _STATEMENTS)
        while "«statement»" in form and depth == 0:
            form = self._random.choice(_STATEMENTS)
        while "«" in form:
            begin, end = form.index("«"), form.index("»")
            kind = form[begin + 1 : end]
            makers: dict[str, Callable[[int], str]] = {
                "statement": self._statement,
                "filter": self._filter,
                "many": lambda left: self._random.choice(_MANY) * self._random.choice((1, 20, 60)),
            }
            for name, words in _FILLS.items():
                makers[name] = lambda left, words=words: self._random.choice(words)  # type: ignore[misc]
            form = (
                form[:begin]
                + makers.get(kind, lambda left, kind=kind: self._value(kind, left))(depth - 1)
                + form[end + 1 :]
            )
        return form.replace("@", str(self._random.choice(_SIZES)))

    def _value(self, kind: str, depth: int) -> str:
        pick = self._random.choice
        if kind == "any":
            kind = pick(("text", "text", "list", "dict", "number", "other"))
        if depth <= 0 or self._random.random() < 0.25:
            return pick(_ATOMS[kind]).replace("@", str(pick(_SIZES)))
        makers = (self._method, self._filtered, self._operated, self._formatted, self._tested, self._cut, self._called)
        return f"({self._random.choice(makers)(kind, depth - 1)})"

    def _arguments(self, depth: int) -> str:
        return ", ".join(self._value("any", depth) for _ in range(self._random.choice((0, 1, 1, 2, 3))))

    def _method(self, kind: str, depth: int) -> str:
        name = self._random.choice(_METHODS.get(kind, _METHODS["other"]))
        return f"({self._value(kind, depth)}).{name}({self._arguments(depth)})"

    def _filter(self, depth: int) -> str:
        pick = self._random.choice
        name = pick(sorted(FILTERS))
        given = [self._arguments(depth)] if self._random.random() < 0.6 else []
        if name in ("map", "select", "reject", "selectattr", "rejectattr"):
            given.insert(0, f"'{pick(sorted(FILTERS if name == 'map' else TESTS))}'")
        if self._random.random() < 0.3:
            given.append(f"attribute={pick(_PATHS).replace('@', str(pick(_SIZES)))}")
        return f"{name}({', '.join(filter(None, given))})"

    def _filtered(self, kind: str, depth: int) -> str:
        return f"({self._value(kind, depth)}) | {self._filter(depth)}"

    def _operated(self, kind: str, depth: int) -> str:
        other = self._random.choice((kind, "any"))
        return f"{self._value(kind, depth)} {self._random.choice(_OPERATORS)} {self._value(other, depth)}"

    def _formatted(self, kind: str, depth: int) -> str:
        layout = self._random.choice(("'%s'", "'%(a)s'", "'%9999999d'", "'%*d'", "('%s' * @)", "'%r%a'", "'%.999999f'"))
        braces = self._random.choice(
            ("'{}'", "('{0}' * @)", "'{:9999999}'", "'{!r:>{}}'", "'{0[a]}'", "'{a.b}'", "'{:,}'")
        )
        size = str(self._random.choice(_SIZES))
        if self._random.random() < 0.5:
            return f"{layout.replace('@', size)} % {self._value('any', depth)}"
        return f"{braces.replace('@', size)}.format({self._arguments(depth)})"

    def _tested(self, kind: str, depth: int) -> str:
        name = self._random.choice(sorted(name for name in TESTS if name.isidentifier()))
        return f"{self._value(kind, depth)} is {name}"

    def _cut(self, kind: str, depth: int) -> str:
        cut = self._random.choice(("[1:]", "[::-1]", "[::2]", "[0]", "[-1]", f"[{self._value('any', depth)}]", "['a']"))
        return f"({self._value(kind, depth)}){cut}"

    def _called(self, kind: str, depth: int) -> str:
        name = self._random.choice(
            (
                "range",
                "dict",
                "namespace",
                "cycler",
                "joiner",
                "lipsum",
                "strftime_now",
                "f",
                "dict.fromkeys",
                "-",
                "not ",
            )
        )
        return f"{name}({self._arguments(depth)})"
