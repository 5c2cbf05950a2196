"""What a request must be for any template to be tried on it: lists of objects that do not nest too deeply.

Rendering goes through values recursively. All else about messages and tools is the template's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spanparse.errors import ConversationError

# Far more than any conversation has.
_MAX_DEPTH: Final = 100
_CONTAINERS: Final = (dict, list)


def check_request(messages: object, tools: object, kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A copy of the messages, since the caller may change objects and lists in them afterwards.

    Raises `ConversationError` naming what is no list, no object in one, or nested too deeply; None is no tools.
    """
    copy = _checked(messages, "messages", of_messages=True)
    if tools is not None:
        _checked(tools, "tools", of_messages=False)
    check_depth(kwargs, "kwargs")
    return copy


def _checked(values: object, where: str, *, of_messages: bool) -> list[dict[str, Any]]:
    if not isinstance(values, list):
        raise ConversationError(where, f"should be a list, got {type(values).__name__}")
    copy = []
    for index, value in enumerate(values):
        message = index if of_messages else None
        if not isinstance(value, dict):
            raise ConversationError(f"{where}[{index}]", f"should be an object, got {type(value).__name__}", message)
        copy.append(check_depth(value, f"{where}[{index}]", message))
    return copy


def check_depth(fields: Mapping[str, Any], where: str, message: int | None = None) -> dict[str, Any]:
    """A copy of the `fields` of `where`; raises `ConversationError` naming the first that nests too deeply.

    `message` is the index of the message that they are of.
    """
    copy = dict(fields)
    for name, value in fields.items():
        # Most are texts, and to look at the type is quicker.
        if type(value) is not str and isinstance(value, _CONTAINERS):
            try:
                copy[name] = _copied(value, _MAX_DEPTH)
            except _TooDeep:
                reason = f"nested too deeply (more than {_MAX_DEPTH} levels)"
                raise ConversationError(f"{where}.{name}", reason, message) from None
    return copy


class _TooDeep(Exception):
    pass


def _copied(container: Any, levels: int) -> Any:
    """A copy of a container that reaches no further down than `levels`; of the ordinary ones in it, others stay."""
    if not levels:
        raise _TooDeep
    ordinary = type(container) is dict or type(container) is list
    copy = container.copy() if ordinary else container
    for key, item in container.items() if isinstance(container, dict) else enumerate(container):
        if type(item) is not str and isinstance(item, _CONTAINERS):
            inner = _copied(item, levels - 1)
            if ordinary:
                copy[key] = inner
    return copy
