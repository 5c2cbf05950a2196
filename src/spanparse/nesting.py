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


def check_request(messages: object, tools: object, kwargs: Mapping[str, Any]) -> None:
    """Raises `ConversationError` naming what is no list, no object in one, or nested too deeply; None is no tools."""
    _check_objects(messages, "messages", of_messages=True)
    if tools is not None:
        _check_objects(tools, "tools", of_messages=False)
    check_depth(kwargs, "kwargs")


def _check_objects(values: object, where: str, *, of_messages: bool) -> None:
    if not isinstance(values, list):
        raise ConversationError(where, f"should be a list, got {type(values).__name__}")
    for index, value in enumerate(values):
        message = index if of_messages else None
        if not isinstance(value, dict):
            raise ConversationError(f"{where}[{index}]", f"should be an object, got {type(value).__name__}", message)
        check_depth(value, f"{where}[{index}]", message)


def check_depth(fields: Mapping[str, Any], where: str, message: int | None = None) -> None:
    """Raises `ConversationError` naming the first of the `fields` of `where` that nests too deeply.

    `message` is the index of the message that they are of.
    """
    for name, value in fields.items():
        # Most are texts, and to look at the type is quicker.
        if type(value) is not str and isinstance(value, _CONTAINERS) and _is_deeper(value, _MAX_DEPTH):
            raise ConversationError(f"{where}.{name}", f"nested too deeply (more than {_MAX_DEPTH} levels)", message)


def _is_deeper(container: dict[Any, Any] | list[Any], levels: int) -> bool:
    """Whether objects and lists in `container`, itself one of them, reach further down than `levels`."""
    if not levels:
        return True
    for item in container.values() if isinstance(container, dict) else container:
        if type(item) is not str and isinstance(item, _CONTAINERS) and _is_deeper(item, levels - 1):
            return True
    return False
