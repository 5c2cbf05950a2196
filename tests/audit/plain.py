"""A plain Jinja environment like transformers', built apart from spanparse's: the audit's own ground to stand on.

The settings are those of `_compile_jinja_template` in transformers' `utils/chat_template_utils.py`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK: Final = datetime.datetime(2026, 1, 1, 12, 0, 0)
"""What `strftime_now` shows in every render of the audit."""


class Refused(Exception):
    """The template raised, or did something that Python refuses."""


class _Generation(Extension):
    tags = {"generation"}  # noqa: RUF012 - the name and type are Jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


class _Dict:
    """Of `dict`, transformers lets a template have the call and `fromkeys` alone."""

    fromkeys = staticmethod(dict.fromkeys)

    def __call__(self, *arguments: Any, **values: Any) -> dict[Any, Any]:
        return dict(*arguments, **values)


def _environment() -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["dict"] = _Dict()
    environment.globals["strftime_now"] = CLOCK.strftime
    return environment


ENVIRONMENT: Final = _environment()


def presented(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What transformers makes of messages before the template sees them: nulls go, reasoning gets a second name."""
    shown = []
    for message in messages:
        fields = {name: value for name, value in message.items() if value is not None}
        if "reasoning_content" in fields:
            fields = {"thinking": fields["reasoning_content"], **fields}
        shown.append(fields)
    return shown


@lru_cache(maxsize=8)
def _compiled(template: str) -> jinja2.Template:
    return ENVIRONMENT.from_string(template)


def render(
    template: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    kwargs: Mapping[str, Any],
    generation: bool,
) -> str:
    """The prompt; raises `Refused` with the template's or Python's words."""
    try:
        return _compiled(template).render(
            messages=presented(messages), tools=tools, documents=None, add_generation_prompt=generation, **kwargs
        )
    except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Refused(" ".join(str(error).split()) or type(error).__name__) from error
