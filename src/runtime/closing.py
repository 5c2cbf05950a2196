"""What frees something outside Python in `close()`, and at the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that closes itself."""

    @abstractmethod
    def close(self) -> None:
        """Free what it owns. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
