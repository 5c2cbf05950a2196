"""From marked characters to pieces: which message owns each stretch of the text."""

from __future__ import annotations

__all__: list[str] = []
