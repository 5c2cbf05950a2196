"""Where the next prompt may part from this one: what is known beforehand, and what was seen."""

from __future__ import annotations

__all__: list[str] = []
