"""What several threads use until one of them closes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import final

from runtime.errors import EngineClosed


@final
class Gate:
    """Lets threads in until it is shut."""

    def __init__(self) -> None:
        self._inside = 0
        self._shut = False
        self._changed = Condition()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """`shut` waits for the end of this block. Raises `EngineClosed` once it was called."""
        with self._changed:
            if self._shut:
                raise EngineClosed
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in any more, and wait until all have left."""
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: not self._inside)
