"""A value that is worked out when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, final

_T = TypeVar("_T")


@final
class Deferred(Generic[_T]):
    """The result of `work`, called when `value` is first read; compared, copied and pickled as that result.

    `work` is let go of then, with all that it holds. It has to give equal results if it is called twice: two threads
    that read at the same moment may both call it.
    """

    __slots__ = ("_value", "_work")

    def __init__(self, work: Callable[[], _T]) -> None:
        self._work: Callable[[], _T] | None = work

    @classmethod
    def done(cls, value: _T) -> Deferred[_T]:
        """A value that is known already."""
        return cls(lambda: value)

    @property
    def value(self) -> _T:
        """The result."""
        work = self._work
        if work is not None:
            # In this order, so that another thread that finds no work finds the value.
            self._value: _T = work()
            self._work = None
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deferred) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __reduce__(self) -> tuple[Callable[[_T], Deferred[_T]], tuple[_T]]:
        return Deferred.done, (self.value,)
