"""What compiling a template may cost: time, the size of the code that is made of it, and what Python makes of that.

`Limits` hold from the first character on: a small template can stand for much code.
"""

from __future__ import annotations

import io
import time
from typing import Final, final

from jinja2 import nodes
from jinja2.compiler import generate
from jinja2.environment import Environment

from spanparse.bounds.limits import LimitReached, Limits

MOST_HASHED: Final = 128
"""Keys that a stated dict may have if some are no texts: a template can choose numbers of one hash."""

_WRITES_A_LOOK: Final = 512
# Bytes and nanoseconds that Python takes for a character of source.
_COMPILED_BYTES: Final = 150
_COMPILED: Final = 700
_LONG: Final = 30_000


@final
class _Source(io.StringIO):
    """Generated code, as long as there is room and time for it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self._left = limits.memory // _COMPILED_BYTES
        self._writes = 0

    def write(self, text: str) -> int:
        self._left -= len(text)
        self._writes += 1
        if self._left < 0:
            raise LimitReached(f"takes more than {self._limits.memory:,} bytes to compile (Limits.memory)")
        if not self._writes % _WRITES_A_LOOK:
            look(self._limits)
        return super().write(text)


def look(limits: Limits, seconds: float = 0.0) -> None:
    """Raise `LimitReached` if the time is up, or will be in so many seconds."""
    if limits.until is not None and time.monotonic() + seconds > limits.until:
        raise LimitReached(f"still compiling after {limits.seconds:g} s (Limits.seconds)")


def source_of(tree: nodes.Template, environment: Environment, limits: Limits) -> str:
    """The Python source that Jinja makes of a syntax tree. Raises `LimitReached`."""
    for literal in tree.find_all(nodes.Dict):
        if len(literal.items) > MOST_HASHED and not all(map(_has_text, literal.items)):
            raise LimitReached(f"states a dict of more than {MOST_HASHED} keys that are no texts")
    look(limits)
    source = _Source(limits)
    generate(tree, environment, None, None, source, optimized=environment.optimized)
    code = source.getvalue()
    if len(code) > _LONG:
        look(limits, len(code) * _COMPILED * 1e-9)
    return code


def _has_text(pair: nodes.Pair) -> bool:
    return isinstance(pair.key, nodes.Const) and isinstance(pair.key.value, str)
