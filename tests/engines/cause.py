"""Why llama.cpp's engine writes another prompt than Jinja does: its habits, each built into Jinja to prove the point.

A cause counts only if Jinja with that habit (or the fewest habits together) writes llama.cpp's prompt byte for byte.
What is said of llama.cpp is what its sources say (`common/jinja/runtime.cpp`, `value.h` and `value.cpp`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from tests.audit.plain import ENVIRONMENT, presented
from tests.engines import preparation
from tests.engines.pair import CLOCK, Pair
from tests.engines.preparation import Prepared, prepared

CAUSES: Final[Mapping[str, str]] = {
    "null": "an expression that is null writes nothing; Jinja writes `None`",
    "containers": "an expression that is an object writes nothing, and one that is a list writes the texts in it; "
    "Jinja writes what Python's `repr` says",
    "continue": "what a block writes before a `continue` or `break` in it is lost",
    "repr": "strings inside an object or list that is made a text are not escaped as Python's `repr` does",
    "equality": "a list or object that holds another is equal to nothing",
    "safe": "text that went through `safe` is text like any other; Jinja escapes what is joined to it",
    "format": "the filter `format` leaves `%s` as it is",
    "scope": "a variable that one round of a loop sets keeps its value in the next",
    "undefined sum": "a text plus something undefined is the text; Jinja refuses",
    "arguments": "a macro's parameter that a call gives by name takes its default, if fewer arguments are given than "
    "there are parameters up to it",
    "first line": "a line break that begins the template is lost if a block follows it",
    "return": "the last `<|return|>` becomes `<|end|>` where no generation prompt is asked for (templates with "
    "`<|channel|>`); it is the server that does this, to the engine's text",
}
"""The habits of the engine by name, in the order in which they are tried."""

SERVER_CAUSES: Final[Mapping[str, str]] = {**preparation.HABITS, **CAUSES}
"""Those, and what llama-server does to a request beforehand."""

UNKNOWN: Final = "unknown"
_MOST_TOGETHER: Final = 3
_FIRST_LINE: Final = re.compile(r"\A\n(?=\{[%#])")
_COMPILED: Final = frozenset(CAUSES) - {"repr", "equality", "return"}


def cause_of(pair: Pair, theirs: str, *, as_sent: bool = False) -> str:
    """The fewest habits that turn Jinja's prompt into llama.cpp's, joined by ` + `; `UNKNOWN` if none do.

    `as_sent` says that llama-server was given the request, else the engine.
    """
    request = Prepared(pair.conversation.messages, pair.conversation.tools)
    servers = preparation.relevant(request, pair.template.text) if as_sent else frozenset()
    tried = sorted({*servers, *_visible(pair, request, servers)}, key=[*SERVER_CAUSES].index)
    for count in range(1, _MOST_TOGETHER + 1):
        for habits in combinations(tried, count):
            if _gives(pair, request, frozenset(habits), theirs):
                return " + ".join(habits)
    return UNKNOWN


def _visible(pair: Pair, request: Prepared, servers: frozenset[str]) -> Iterator[str]:
    """The engine's habits that change the prompt, of the request as it is or with one or all of the server's."""
    rendered = [(pair, request)]
    if "continued" in servers:
        rendered.append((pair._replace(generation=False), request._replace(messages=request.messages[:-1])))
    for habits in {frozenset[str](), servers, *(frozenset({name}) for name in servers)}:
        for shown, sent in rendered:
            changed = prepared(sent, habits)
            plain = _render(shown, changed, habits)
            yield from (name for name in CAUSES if _render(shown, changed, habits | {name}) != plain)


def _gives(pair: Pair, request: Prepared, habits: frozenset[str], theirs: str) -> bool:
    """Whether Jinja with the habits writes llama.cpp's prompt."""
    if "continued" not in habits:
        return _render(pair, prepared(request, habits), habits) == theirs
    *others, last = request.messages
    before = _render(pair._replace(generation=False), prepared(request._replace(messages=others), habits), habits)
    content = prepared(Prepared([last], None), habits).messages[-1]["content"]
    return before is not None and theirs.startswith(before) and theirs.endswith(_text_of(content))


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


def _render(pair: Pair, request: Prepared, habits: frozenset[str]) -> str | None:
    messages: Any = presented(request.messages)
    if "one name" in habits:
        messages = [{name: value for name, value in m.items() if name != "thinking"} for m in messages]
    messages, tools = _loosely(messages, habits), _loosely(request.tools, habits)
    said: dict[str, Any] = {"tools": tools, "documents": None, "add_generation_prompt": pair.generation}
    if "undefined" in habits:
        said = {name: value for name, value in said.items() if value}
    try:
        text = _compiled(pair.template.text, habits & _COMPILED).render(messages=messages, **said, **pair.kwargs)
    except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    if "return" in habits and not pair.generation:
        return "<|end|>".join(text.rsplit("<|return|>", 1))
    return text


@lru_cache(maxsize=64)
def _compiled(template: str, habits: frozenset[str]) -> jinja2.Template:
    environment = ENVIRONMENT.overlay(finalize=lambda value: _written(value, habits))
    if "safe" in habits:
        environment.filters = {**environment.filters, "safe": str}
    if "format" in habits:
        environment.filters = {**environment.filters, "format": lambda pattern, *_: pattern}
    if "undefined sum" in habits:
        environment.undefined = _Nothing
    if "scope" in habits:
        environment.code_generator_class = _OneScope
    tree = environment.parse(_FIRST_LINE.sub("", template) if "first line" in habits else template)
    if "continue" in habits:
        _lose_text_before_jumps(tree)
    if "arguments" in habits:
        _lose_arguments(tree)
    names = environment.make_globals({"strftime_now": CLOCK.strftime})
    return jinja2.Template.from_code(environment, environment.compile(tree), names)


class _Nothing(jinja2.Undefined):
    """Something undefined that adds nothing to a text."""

    def _beside(self, other: Any) -> Any:
        return other if isinstance(other, str) else self._fail_with_undefined_error()

    __add__ = __radd__ = _beside


class _OneScope(CodeGenerator):
    """Compiles loops whose variables are not forgotten when the next round begins."""

    _entering = False

    def enter_frame(self, frame: Frame) -> None:
        self._entering = True
        super().enter_frame(frame)
        self._entering = False

    def writeline(self, x: str, node: nodes.Node | None = None, extra: int = 0) -> None:
        *names, value = x.split(" = ")
        if not self._entering or not names or names[0].startswith("l_0_"):
            return super().writeline(x, node, extra)
        for name in names:
            super().writeline(f"{name} = locals().get({name!r}, missing)", node, extra)
            super().writeline(f"if {name} is missing: {name} = {value}", node, extra)
        return None


def _written(value: Any, habits: frozenset[str]) -> Any:
    """What Jinja is to write for the value of an expression."""
    if value is None and "null" in habits:
        return ""
    if isinstance(value, (dict, list, tuple)) and "containers" in habits:
        return _texts_in(value)
    return value


def _texts_in(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "".join(map(_texts_in, value))
    return str(value) if isinstance(value, (str, int, float)) else ""


def _lose_text_before_jumps(tree: nodes.Node) -> None:
    """Take out of every block of an `if` what it writes before a `continue` or `break` that stands in it."""
    for branch in tree.find_all(nodes.If):
        for block in (branch.body, branch.else_):
            jumps = [i for i, node in enumerate(block) if isinstance(node, (nodes.Continue, nodes.Break))]
            if jumps:
                block[: jumps[0]] = _silent(block[: jumps[0]])


def _silent(block: list[nodes.Node]) -> list[nodes.Node]:
    """The block without what it writes."""
    kept = [node for node in block if not isinstance(node, nodes.Output)]
    for node in kept:
        if isinstance(node, (nodes.If, nodes.For)):
            node.body, node.else_ = _silent(node.body), _silent(node.else_)
        if isinstance(node, nodes.If):
            node.elif_ = [branch for branch in _silent([*node.elif_]) if isinstance(branch, nodes.If)]
    return kept


def _lose_arguments(tree: nodes.Node) -> None:
    """Let a call with n arguments set the first n parameters of a macro, those that it does not give as undefined."""
    parameters = {macro.name: [name.name for name in macro.args] for macro in tree.find_all(nodes.Macro)}
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Name) or call.node.name not in parameters:
            continue
        given = {keyword.key: keyword for keyword in call.kwargs}
        reached = parameters[call.node.name][len(call.args) : len(call.args) + len(given)]
        undefined = nodes.Name("nothing_given", "load")
        call.kwargs = [given.get(name) or nodes.Keyword(name, undefined) for name in reached]


class _Object(dict[Any, Any]):
    """An object with llama.cpp's equality and `repr`, where `habits` say so."""

    habits: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        if "repr" not in self.habits:
            return super().__repr__()
        return "{" + ", ".join(f"{_repr(key)}: {_repr(value)}" for key, value in self.items()) + "}"

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and not ("equality" in self.habits and _holds_containers(self.values()))

    def __ne__(self, other: object) -> bool:
        return not self == other


class _List(list[Any]):
    """A list of that kind."""

    habits: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        if "repr" not in self.habits:
            return super().__repr__()
        return "[" + ", ".join(map(_repr, self)) + "]"

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and not ("equality" in self.habits and _holds_containers(self))

    def __ne__(self, other: object) -> bool:
        return not self == other


def _holds_containers(values: Iterable[Any]) -> bool:
    return any(isinstance(value, (dict, list)) for value in values)


def _repr(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    return json.dumps(value, ensure_ascii=False) if "'" in value else f"'{value}'"


def _loosely(value: Any, habits: frozenset[str]) -> Any:
    """The same value, its objects and lists with the habits."""
    if not isinstance(value, (dict, list)) or not habits & {"repr", "equality"}:
        return value
    loose: _Object | _List
    if isinstance(value, dict):
        loose = _Object({key: _loosely(item, habits) for key, item in value.items()})
    else:
        loose = _List(_loosely(item, habits) for item in value)
    loose.habits = habits
    return loose
