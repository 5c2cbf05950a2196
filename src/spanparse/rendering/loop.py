"""Jinja's `loop`, for lists without a call at each item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jinja2.runtime import LoopContext


class ChatLoop(LoopContext):
    """What a template sees as `loop`: a list's items are looked up where Jinja would go ahead and remember."""

    _items: Sequence[Any] | None

    def __init__(self, iterable: Any, *arguments: Any) -> None:
        super().__init__(iterable, *arguments)
        self._items = iterable if isinstance(iterable, (list, tuple)) else None

    def __iter__(self) -> Any:
        return self if self._items is None else self._through(self._items)

    def __next__(self) -> Any:
        return super().__next__() if self._items is None else next(self._through(self._items))

    def _through(self, items: Sequence[Any]) -> Iterator[tuple[Any, ChatLoop]]:
        # A template may go on with the loop inside it.
        while (index := self.index0 + 1) < len(items):
            self.index0 = index
            yield items[index], self

    @property
    def last(self) -> bool:
        return super().last if self._items is None else self.index0 + 1 >= len(self._items)

    @property
    def previtem(self) -> Any:
        return super().previtem if self._items is None or self.index0 <= 0 else self._items[self.index0 - 1]

    @property
    def nextitem(self) -> Any:
        items = self._items
        if items is None:
            return super().nextitem
        index = self.index0 + 1
        return items[index] if index < len(items) else self._undefined("there is no next item")


# What Jinja prints of one.
ChatLoop.__name__ = "LoopContext"
