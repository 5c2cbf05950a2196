"""The characters of a marked text as a list that is not made before somebody looks into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from spanparse.marks.marked import Marked

_LOOKING: Final = (
    *("__add__", "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__iter__", "__le__", "__lt__"),
    *("__mul__", "__ne__", "__repr__", "__reversed__", "__rmul__", "copy", "count", "index"),
)


@final
class Letters(list[str]):
    """A list of the characters of `_text`, each with its mark, for templates that join them again mostly.

    `_text` is None once the list is made. What reads a list past its methods finds an empty one before: the text of the
    render is another one then, which shows.
    """

    __slots__ = ("_text",)
    _text: Marked | None

    def __init__(self, text: Marked) -> None:
        super().__init__()
        self._text = text

    def _made(self) -> Letters:
        text, self._text = self._text, None
        if text is not None:
            self.extend(text)
        return self

    def __len__(self) -> int:
        return super().__len__() if self._text is None else len(self._text)

    def __radd__(self, other: list[str]) -> list[str]:
        return [*other, *self]

    __hash__ = None


def _looking(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def looked(self: Letters, *operands: Any) -> Any:
        return method(self._made(), *operands)

    return looked


for _name in _LOOKING:
    setattr(Letters, _name, _looking(_name))

# What Python calls it when it complains.
Letters.__name__ = "list"
