"""The texts of a message, each with its path, and the same message with some of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

_NOT_TEXT: Final = frozenset({"role", "type", "format"})
_BORROWED: Final = frozenset({"name", "id", "tool_call_id"})


class Field(NamedTuple):
    """A string of a message (or tool): `path` as in `tool_calls[0].function.arguments.city`.

    `borrowed`: a name or an id, which a template may show inside the text of the message that refers to it.
    """

    path: str
    value: str
    borrowed: bool

    @property
    def is_text(self) -> bool:
        """Whether it is text for the model to read: content or reasoning, not a call, a name or a link."""
        return self.path.startswith(("content", "reasoning_content")) and not self.path.endswith(("url", "data"))


def fields(value: Any, path: str = "", last: str = "") -> Iterator[Field]:
    """Every string in a message except its role and types; keys are not among them."""
    if isinstance(value, str):
        if last not in _NOT_TEXT:
            yield Field(path, value, last in _BORROWED)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from fields(item, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from fields(item, f"{path}[{place}]", last)


def replaced(value: Any, change: Callable[[Field], str], path: str = "", last: str = "") -> Any:
    """A copy of a message whose strings are what `change` makes of them."""
    if isinstance(value, str):
        field = Field(path, value, last in _BORROWED)
        return value if last in _NOT_TEXT else change(field)
    if isinstance(value, dict):
        return {k: replaced(v, change, f"{path}.{k}" if path else str(k), str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [replaced(item, change, f"{path}[{i}]", last) for i, item in enumerate(value)]
    return value
