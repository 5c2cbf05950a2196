"""Templates that mean harm, by what they would do if nothing stopped them."""

from __future__ import annotations

from spanparse.rendering.extensions import MAX_TEMPLATE_TOKENS

X = "{% set x = 'ab' * 250000 %}"
NS = "{% set ns = namespace(a=[], s='', t=()) %}"
HELD = "{% set ns.a = [ns.a, @] %}"
COLLIDING = "range(0, 99999 * (2**61 - 1), 2**61 - 1)"


def repeat(statement: str, times: int, before: str = "") -> str:
    return before + statement * times


def nested(value: str, use: str) -> str:
    """A value of two parts, each of two parts, and so on forty times; and another like it."""
    doubled = value.replace("@", "a"), value.replace("@", "b")
    start = "{% set a = (1, 1) %}{% set b = (1, 1) %}"
    return start + (f"{{% set a = {doubled[0]} %}}{{% set b = {doubled[1]} %}}" * 40) + use


def forever(body: str, before: str = "") -> str:
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}"
    return before + loops + body + "{% endfor %}{% endfor %}"


def hold(value: str, before: str = "") -> str:
    """A chain of lists that grows by a value with each step."""
    return forever(HELD.replace("@", value), NS + before)


def _grown(times: int) -> str:
    """A choice in which what is chosen stands in its own condition, and so on."""
    text = "m.a"
    for _ in range(times):
        text = f"({text} if y and {text} else '').a" if len(text) < 90_000 else text
    return text


LARGE_TEXTS = {
    "repeated text": "{{ 'a' * 10**9 }}",
    "repeated text, number first": "{{ 10**9 * 'a' }}",
    "repeated content": "{{ messages[0].content * 10**8 }}",
    "repeated nothing": NS + "{% set ns.t = messages[0].content[:0] %}" + forever("{% set x = ns.t * 10**7 %}"),
    "doubled with a tilde": repeat("{% set x = x ~ x %}", 40, X),
    "doubled with a plus": repeat("{% set x = x + x %}", 40, X),
    "doubled content": repeat("{% set x = x + x %}", 40, "{% set x = messages[0].content %}"),
    "doubled in a set block": repeat("{% set x %}{{ x }}{{ x }}{% endset %}", 40, X),
    "doubled in a namespace": forever("{% set ns.s = ns.s ~ 'a' ~ ns.s %}", NS),
    "doubled in macros": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% else %}a{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "doubled in blocks": "".join(
        f"{{% block b{i} %}}{{{{ self.b{i + 1}() }}}}{{{{ self.b{i + 1}() }}}}{{% endblock %}}" for i in range(40)
    )
    + "{% block b40 %}aaaaaaaaaaaaaaaa{% endblock %}",
    "doubled as HTML": repeat("{% set x = ('' | safe) + x + x %}", 40, "{% set x = '<' * 9999 %}"),
    "doubled under autoescape": "{% autoescape true %}{% set x = '<' * 9999 %}"
    + repeat("{% set x = x ~ x %}", 40)
    + "{% endautoescape %}",
    "wide under autoescape": X + "{% autoescape true %}{{ " + "x ~ " * 2000 + "('<' | safe) }}{% endautoescape %}",
    "many tildes": X + "{{ " + "x ~ " * 5000 + "x }}",
    "many sums": X + "{{ (" + " + ".join(["(x + x + x)"] * 50) + ") | length }}",
    "a wide set block": X + "{% set y %}" + "{{ x }}" * 3000 + "{% endset %}",
    "a wide block": "{% block a %}"
    + "{{ self.b() }}" * 2000
    + "{% endblock %}{% block b %}"
    + "a" * 9999
    + "{% endblock %}",
    "printed for ever": forever("x"),
    "nothing printed for ever": forever("{{ '' }}"),
    "percent width": "{{ '%999999999d' % 1 }}",
    "percent star": "{{ '%*d' % (10**9, 1) }}",
    "percent precision": "{{ '%.999999999f' % 1.5 }}",
    "percent many": X + "{{ ('%(a)s' * 100000) % {'a': x} }}",
    "percent many of a tuple": X + "{{ ('%s' * 100) % ((x,) * 100) }}",
    "percent in a test": "{{ '%999999999d' is odd }}",
    "percent in another test": "{{ '%999999999d' is divisibleby(1) }}",
    "percent of bytes": "{{ '%999999999d'.encode() % 1 }}",
    "format filter": "{{ '%999999999d' | format(1) }}",
    "format width": "{{ '{:999999999}'.format(1) }}",
    "format nested width": "{{ '{:{}}'.format(1, 10**9) }}",
    "format precision": "{{ '{:.999999999f}'.format(1.5) }}",
    "format many": X + "{{ ('{0}' * 100000).format(x) }}",
    "format map": "{{ '{a:999999999}'.format_map({'a': 1}) }}",
    "format of HTML": "{{ ('{:999999999}' | safe).format(1) }}",
    "format as an attribute": "{{ ('{:999999999}' | attr('format'))(1) }}",
    "format as an item": "{{ '{:999999999}'['format'](1) }}",
    "format mapped": "{{ (['{:999999999}'] | map(attribute='format') | first)(1) }}",
    "center": "{{ 'a'.center(10**9) }}",
    "center HTML": "{{ ('a' | safe).center(10**9) }}",
    "center filter": "{{ 'a' | center(10**9) }}",
    "center mapped": "{{ ['a'] | map('center', 10**9) | list | length }}",
    "ljust": "{{ 'a'.ljust(10**9) }}",
    "rjust": "{{ messages[0].content.rjust(10**9) }}",
    "zfill": "{{ messages[0].content.zfill(10**9) }}",
    "expandtabs": "{{ ('\\t' * 1000).expandtabs(10**8) }}",
    "indent": "{{ 'a\\nb' | indent(10**9) }}",
    "indent by a text": X + "{{ ('\\n' * 100000) | indent(x) }}",
    "replace": X + "{{ x.replace('a', x) | length }}",
    "replace nothing": X + "{{ x.replace('', x) | length }}",
    "replace filter": X + "{{ x | replace('a', x) | length }}",
    "join filter": X + "{{ range(99999) | join(x) }}",
    "join of aliases": X + "{{ ([x] * 1000) | join | length }}",
    "join method": X + "{{ x.join(['a'] * 1000) }}",
    "join of what is mapped": X + "{{ ''.join(([x] * 1000) | map('string')) }}",
    "join with itself": X + "{{ x.join(x) }}",
    "translate": X + "{{ ('a' * 10000).translate({97: x}) }}",
    "tojson indent": "{{ messages | tojson(indent=10**8) }}",
    "tojson of many messages": "{{ ([messages] * 9999) | tojson | length }}",
    "tojson indent by a text": X + "{{ [[[[1] * 999]]] | tojson(indent=x) }}",
    "tojson separators": X + "{{ range(9999) | list | tojson(separators=(x, x)) }}",
    "lipsum": "{{ lipsum(n=10**9) }}",
    "one lipsum": "{{ lipsum(n=1, min=10**8, max=10**9) }}",
    "urlize": X + "{{ ('http://a.b ' * 10000) | urlize(target=x) }}",
    "wordwrap": X + "{{ x | wordwrap(1, wrapstring=x) }}",
    "strftime": "{{ strftime_now('%c' * 500000) }}",
    "urlencode": "{{ ('б' * 1900000) | urlencode | length }}",
    "escape": "{{ ('<' * 1900000) | escape | length }}",
    "e": "{{ (messages[0].content[:1] * 900000 ~ '<' * 900000) | e | length }}",
    "forceescape": "{{ ('<' * 1900000) | forceescape | length }}",
    "title": "{{ ('a ' * 900000) | title | length }}",
    "formatted braces": "{{ ('{' * 1900000).format() | length }}",
    "names in place of characters": "{{ ('б' * 1900000).encode('ascii', 'namereplace') | length }}",
}

LARGE_VALUES = {
    "repeated list": "{{ ([0] * 10**9) | length }}",
    "repeated tuple": "{{ ((0,) * 10**9) | length }}",
    "doubled list": repeat("{% set x = x + x %}", 40, "{% set x = [1, 2] %}"),
    "batch filled up": "{{ [1] | batch(10**9, 0) | first | length }}",
    "many slices": "{{ [1] | slice(10**9) | list | length }}",
    "slices of a text": "{{ ('б' * 1900000) | slice(2) | list | length }}",
    "lines of a text": "{{ ('\\n' * 1900000).splitlines() | length }}",
    "sum that starts with a list": "{{ ([[]] * 99999) | sum(start=[1] * 99999) | length }}",
    "sum of lists": "{{ ([[1] * 1000] * 10000) | sum(start=[]) | length }}",
    "a huge range": "{{ range(10**9) | list | length }}",
    "many arguments": "{% macro f() %}{{ varargs | length }}{% endmacro %}{{ f(*('ab' * 900000)) }}",
    "a number to a power": "{{ 2 ** (10**9) }}",
    "a large number to a large power": "{% set x = 3 ** 40000 %}{{ x ** x }}",
    "numbers squared": repeat("{% set x = x * x %}", 40, "{% set x = 3 ** 1000 %}"),
    "a number of many digits": "{% set x = ('f' * 1000000) | int(base=16) %}{{ x // (x - 3) }}",
    "a rounded number": "{{ 1 | round(-10**9) }}",
    "a number rounded up": "{{ 1 | round(10**9, 'ceil') }}",
    "a text rounded up": "{{ 'abc' | round(9, 'ceil') }}",
    "to_bytes": "{{ (1).to_bytes(10**9, 'big') | length }}",
    "maketrans": X + "{{ x.maketrans(x, x) | length }}",
    "pieces held": hold("x.split()", "{% set x = 'aa ' * 600000 %}"),
    "lines held": hold("x.splitlines()", "{% set x = 'aa\\n' * 600000 %}"),
    "characters held": hold("x | list", "{% set x = 'б' * 1900000 %}"),
    "numbers held": hold("i"),
    "texts held": hold("'x' * 50000"),
    "short texts held": hold("i ~ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"),
    "slices held": hold("x[1:]", X),
    "trimmed texts held": hold("(x ~ ' ') | trim", X),
    "parts held": hold("x.split(' ')[0]", "{% set x = ('ab' * 50000) ~ ' c' %}"),
    "joined texts held": hold("[x, x] | join", X),
    "macros' texts held": hold("f()", X + "{% macro f() %}{{ x }}{% endmacro %}"),
    "literals held": hold("[" + "1," * 500 + "]"),
    "ranges held": hold("range(9999) | list"),
    "dicts held": hold("dict(d)", "{% set d = {}.fromkeys(range(900)) %}"),
    "sets held": hold("d.keys() - []", "{% set d = {}.fromkeys(range(900)) %}"),
    "large numbers held": hold("x + i", "{% set x = 3 ** 20000 %}"),
    "bytes held": hold("x.encode()", "{% set x = 'a' * 9000 %}"),
}

NESTED_VALUES = {
    "printed": nested("[@, @]", "{{ a }}"),
    "printed through string": nested("[@, @]", "{{ (a | string) | length }}"),
    "printed through a tilde": nested("[@, @]", "{{ a ~ '' }}"),
    "printed through percent": nested("[@, @]", "{{ '%s' % [a] }}"),
    "printed through format": nested("[@, @]", "{{ '{}'.format(a) }}"),
    "printed through a conversion": nested("[@, @]", "{{ '{!r}'.format(a) }}"),
    "printed through join": nested("[@, @]", "{{ a | join }}"),
    "printed through upper": nested("[@, @]", "{{ a | upper }}"),
    "printed through pprint": nested("[@, @]", "{{ a | pprint }}"),
    "printed through urlencode": nested("[@, @]", "{{ a | urlencode }}"),
    "printed under autoescape": nested("[@, @]", "{% autoescape true %}{{ a }}{% endautoescape %}"),
    "printed as a refusal": nested("[@, @]", "{{ raise_exception(a) }}"),
    "lists as JSON": nested("[@, @]", "{{ a | tojson }}"),
    "dicts as JSON": nested("{'x': @, 'y': @}", "{{ a | tojson }}"),
    "namespaces printed": nested("namespace(x=@, y=@)", "{{ [a] }}"),
    "items printed": nested("{'x': @, 'y': @}.items()", "{{ a }}"),
    "values printed": nested("{'x': @, 'y': @}.values()", "{{ a }}"),
    "arguments printed": "{% macro f(n) %}{% if n %}{{ f(n - 1, varargs, varargs) }}{% else %}{{ varargs }}{% endif %}"
    "{% endmacro %}{{ f(60) }}",
    "compared": nested("[@, @]", "{{ a == b }}"),
    "compared in a chain": nested("[@, @]", "{{ a <= b <= a }}"),
    "compared by a test": nested("[@, @]", "{{ a is eq b }}"),
    "compared by select": nested("[@, @]", "{{ [a] | select('equalto', b) | list | length }}"),
    "looked for": nested("[@, @]", "{{ a in [b] }}"),
    "looked for by index": nested("[@, @]", "{{ [b].index(a) }}"),
    "counted": nested("[@, @]", "{{ [b].count(a) }}"),
    "sorted": nested("[@, @]", "{{ [a, b] | sort }}"),
    "the largest": nested("[@, @]", "{{ [a, b] | max }}"),
    "changed": nested("[@, @]", "{% for c in [a, b] %}{{ loop.changed(c) }}{% endfor %}"),
    "a key": nested("(@, @)", "{{ {a: 1} | length }}"),
    "a key that is looked up": nested("(@, @)", "{{ {}[a] }}"),
    "a key that is got": nested("(@, @)", "{{ {}.get(a) }}"),
    "a key that is looked for": nested("(@, @)", "{{ a in {} }}"),
    "a key of a new dict": nested("(@, @)", "{{ dict([(a, 1)]) | length }}"),
    "unique": nested("(@, @)", "{{ [a] | unique | list | length }}"),
    "an attribute": nested("(@, @)", "{{ messages | map(attribute=a) | list | length }}"),
    "a filter's name": nested("(@, @)", "{{ a is filter }}"),
    "an undefined item": nested("(@, @)", "{{ missing[a].x }}"),
    "hashed a hundred thousand deep": NS
    + "{% for i in range(99999) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ {ns.t: 1} | length }}",
    "printed a hundred thousand deep": NS + "{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
    "JSON a hundred thousand deep": NS
    + "{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a | tojson }}",
    "filters a hundred thousand deep": NS
    + "{% for i in range(99999) %}{% set ns.a = ns.a | map('upper') %}{% endfor %}{{ ns.a | list }}",
    "first of a hundred thousand": NS
    + "{% for i in range(99999) %}{% set ns.a = [ns.a] | map('first') %}{% endfor %}{{ ns.a | list }}",
}

ENDLESS = {
    "two loops": forever(""),
    "a loop that takes nothing": "{% for i in range(99999) %}{% for j in range(99999) if false %}"
    "{% endfor %}{% endfor %}",
    "loops over a text": "{% set x = messages[0].content * 5000 %}"
    "{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}",
    "a loop that grows a list": forever("{% set ns.a = ns.a + [j] %}", NS),
    "a list of what is mapped": X + "{% for a in x | map('upper') %}{{ loop.length }}{% endfor %}" + forever(""),
    "sums of what is mapped": forever("{{ range(99999) | map('abs') | sum }}"),
    "sorting": forever("{{ range(99999) | sort | first }}" * 50),
    "searching": forever("{% if 'aaaaaaaaab' in x %}{% endif %}" * 50, "{% set x = 'a' * 1900000 %}"),
    "searching without a loop": repeat("{% if 'aaaaaaaaab' in x %}{% endif %}", 2000, "{% set x = 'a' * 1900000 %}")
    + forever(""),
    "counting": forever("{{ x.count('ab') }}" * 50, "{% set x = 'a' * 1900000 %}"),
    "comparing": forever("{% if x == y %}{% endif %}" * 50, "{% set x = 'a' * 999999 %}{% set y = (x ~ 'b')[:-1] %}"),
    "turning round": forever("{{ x[::-1] | length }}", "{% set x = messages[0].content * 5000 %}"),
    "splitting what has many origins": NS
    + "{% for i in range(9999) %}{% set ns.s = ns.s ~ messages[0].content[:1] ~ ',' %}{% endfor %}"
    + forever("{{ ns.s.split(',') | length }}"),
    "characters that are all the same": forever("{{ x | unique | list | length }}", X),
    "characters that are none of them sought": forever("{{ x | select('equalto', 'c') | first }}", X),
    "characters that are all dropped": forever("{{ x | reject('string') | first }}", X),
    "characters without attributes": forever("{{ x | selectattr('y') | list | length }}", X),
    "characters in one batch": forever("{{ x | batch(9999999) | list | length }}", X),
    "characters sorted": forever("{{ x | sort | length }}", X),
    "characters grouped": forever("{{ x | groupby('y') | length }}", X),
    "the largest character": forever("{{ x | max }}{{ x | min }}", X),
    "characters joined": forever("{{ x | join | length }}", X),
    "characters that a set loses": forever("{{ {}.keys() - x }}", X),
    "long texts that are all the same": forever("{{ ([x] * 9999) | unique | list | length }}", X),
    "long texts in a list": forever("{{ y in ([x] * 9999) }}", X + "{% set y = x[:-1] ~ 'c' %}"),
    "what stands at the ends": forever("{{ x.strip(x) }}{{ x | trim(x) }}", X),
    "what stands last": forever("{{ x.rfind(y) }}{{ x.rpartition(y)[0] }}", X + "{% set y = x[:-9] ~ x[3:] %}"),
    "cases": forever("{{ x.lower() is upper }}{{ x.swapcase() is lower }}{{ x.title() | capitalize | length }}", X),
    "keys that collide": f"{{{{ {{}}.fromkeys({COLLIDING}) | length }}}}",
    "pairs that collide": f"{{{{ dict({COLLIDING} | batch(2) | list) | length }}}}",
    "sets that collide": f"{{{{ ({{'a': 1}}.keys() - []).union({COLLIDING}) | length }}}}",
    "tags stripped": "{{ ('<!---->' * 200000) | striptags }}",
    "punycode": "{{ ('аб' * 200000).encode('punycode') | length }}",
    "a macro that calls itself": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "two macros that call each other": "{% macro g(n) %}{{ f(n) }}{% endmacro %}"
    "{% macro f(n) %}{{ g(n) }}{% endmacro %}{{ f(0) }}",
    "a block that calls itself": "{% block a %}{{ self.a() }}{% endblock %}",
    "a loop that calls itself": "{% for i in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
}

UNWEIGHED = {
    "a set without a deep value": NS
    + "{% for i in range(9999) %}{% set ns.t = (ns.t,) %}{% endfor %}" * 30
    + "{{ ({'a': 1}.keys() - [ns.t]) | length }}",
    "a set without numbers of one hash": f"{{{{ ({{}}.keys() - {COLLIDING}) | length }}}}",
    "a list without a set of numbers of one hash": f"{{{{ ({COLLIDING} - {{}}.keys()) | length }}}}",
    "a path that never ends": "{{ range(90000) | min(attribute='imag.' * 90000 ~ 'imag') }}",
    "many paths": "{{ range(3000) | sort(attribute='imag,' * 300000 ~ 'imag') | length }}",
    "a path for each": "{{ range(90000) | map(attribute='imag.' * 90000 ~ 'imag') | sum }}",
    "a path to pick by": "{{ range(90000) | selectattr('imag.' * 90000 ~ 'imag') | list }}",
    "a path to join by": "{{ range(90000) | join(attribute='imag.' * 90000 ~ 'imag') | length }}",
    "a path to tell apart by": "{{ range(90000) | unique(attribute='imag.' * 90000 ~ 'imag') | list | length }}",
    "one of many ends": "{% set x = 'ab' * 900000 %}{% set y = x[:900000] ~ 'c' ~ x[900001:] %}"
    "{{ x.endswith((y,) * 900000) }}",
    "a table of long texts": "{{ ('b' * 500).translate(['c' * 1900000] * 200) | length }}",
    "a table of one long text": "{{ ('b' * 900).translate({98: 'c' * 1900000}) | length }}",
    "a namespace inside what it holds": NS.replace("s=''", "s='ab' * 900000")
    + "{% set ns.a = [ns] * 900 %}{{ '{}'.format([ns, ns.a]) | length }}",
    "a view's mapping": X + "{{ ([{'a': x}.keys().mapping] * 9000) | string | length }}",
    "numbers of many digits": forever("{{ (n // 3) % 7 }}" * 50, "{% set n = 2 ** 60000 %}"),
    "short texts": forever("{{ x.upper() | length }}" * 3000, "{% set x = ('aé' * 8000) %}"),
    "short texts sought in short ones": forever(
        "{{ x.find(y) }}" * 900, "{% set x = 'a' * 16000 %}{% set y = 'a' * 4000 ~ 'b' ~ 'a' * 4000 %}"
    ),
    "odd operations": forever("{{ x | urlize | length }}" * 900, "{% set x = 'a.b ' * 2400 %}"),
    "filler text": forever("{{ lipsum(99, true, 90, 99) | length }}"),
    "wide characters": "{% set x = '\U0001f600' * 1900000 %}{% set y = x * 99 %}",
    "blocks that write nothing": "{% set ns = namespace(n=0) %}{% block a %}{% set ns.n = ns.n + 1 %}{% if ns.n % 90 %}"
    "{% set z = self.a() %}{% set z = self.a() %}{% endif %}{% endblock %}" + forever(""),
    "a dict of numbers of one hash": forever(
        "{% set x = {" + ", ".join(f"{n * (2**61 - 1)}: 1" for n in range(7000)) + "} %}"
    ),
    "conditions that are conditions": "".join(f"{{% set a{n} = a{n + 1} and a{n + 1} %}}" for n in range(60))
    + "{% if a0 %}{{ a0 }}{% endif %}"
    + forever(""),
    "code that grows": "{{ " + _grown(14) + " }}" + forever(""),
    "punycode of short texts": "{{ ('абвгд' * 1900).encode('punycode') | length }}",
    "origins that are all looked for": "{% set y = ([messages[0].content[:1], 'b'] * 300000) | join %}"
    "{{ y.replace('b', 1 | string) | length }}" + forever(""),
}

DEEP_TEMPLATES = {
    "parentheses": "{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}",
    "lists": "{{ " + "[" * 9000 + "]" * 9000 + " }}",
    "negations": "{{ " + "not " * 9000 + "1 }}",
    "signs": "{{ " + "-" * 9000 + "1 }}",
    "attributes": "{{ x" + ".y" * 9000 + " }}",
    "filters": "{{ x" + " | e" * 9000 + " }}",
    "sums": "{{ " + "x + " * 9000 + "x }}",
    "choices": "{{ " + "x if x else " * 4000 + "x }}",
    "loops": "{% for a in b %}" * 2000 + "{% endfor %}" * 2000,
    "conditions": "{% if a %}" * 2000 + "{% endif %}" * 2000,
    "branches": "{% if a %}" + "{% elif a %}" * 7000 + "{% endif %}",
    "braces": "{" * 100_000,
    "a long template": "x" * 50_000_000,
    "a template of many tokens": "{{ a }}" * MAX_TEMPLATE_TOKENS,
    "a template just under the limit": "{{ " + "x ~ " * (MAX_TEMPLATE_TOKENS // 2 - 10) + "x }}" + forever(""),
}

LIMITED = {
    f"{group}: {name}": template
    for group, templates in (
        ("text", LARGE_TEXTS),
        ("value", LARGE_VALUES),
        ("nested", NESTED_VALUES),
        ("endless", ENDLESS),
        ("unweighed", UNWEIGHED),
        ("deep", DEEP_TEMPLATES),
    )
    for name, template in templates.items()
}

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ (messages | attr('__class__')).mro() }}",
    "{{ [''] | map(attribute='__class__.__mro__') | list }}",
    "{{ messages | selectattr('__class__.__mro__') | list }}",
    "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "{{ '{a.__class__.__mro__}'.format_map({'a': messages}) }}",
    "{{ ('{0.__class__.__mro__}' | safe).format(messages) }}",
    "{{ lipsum.__globals__['os'].popen('id') }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ raise_exception.__globals__['json'] }}",
    "{{ strftime_now.__wrapped__.x }}",
    "{{ self._TemplateReference__context.environment }}",
    "{{ self.__init__.__globals__ }}",
    "{% macro f() %}{% endmacro %}{{ f._func.__globals__ }}",
    "{% for m in messages %}{{ loop._iterator.x }}{% endfor %}",
    "{{ (messages | map('string'))._operations.meter }}",
    "{{ (messages | map('string')).gi_frame.f_globals }}",
    "{{ messages[0].content._runs.append }}",
    "{{ messages[0].content.whole('a', 'b') }}",
    "{{ messages[0]._origin.path.x }}",
    "{{ messages.append(1) }}",
    "{{ messages.clear() }}",
    "{{ messages[0].update({'role': 'x'}) }}",
    "{{ messages[0].pop('role') }}",
    "{% set messages[0].role = 'x' %}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "{% include 'a' %}",
    "{% import 'os' as os %}",
    "{% extends 'a' %}",
    "{{ config }}{{ request.application }}",
    "{{ ''.join.__self__.__class__.__base__ }}",
]
