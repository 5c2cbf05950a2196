"""Jinja extensions of the chat environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

from spanparse.bounds.limits import LimitReached

MAX_TEMPLATE_TOKENS = 30_000
"""Most tokens, of which compiling one takes some 15 µs and 4 kB; the longest published template has 5,160."""


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}`: transformers records its offsets; the text is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - the name and type are Jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(lineno)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class TokenLimit(Extension):
    """Stops the parser on a template of too many tokens."""

    def filter_stream(self, stream: TokenStream) -> Iterable[Token]:
        for number, token in enumerate(stream):
            if number >= MAX_TEMPLATE_TOKENS:
                raise LimitReached(f"has more than {MAX_TEMPLATE_TOKENS:,} tokens")
            yield token
