"""What to save and what to give up: our own policy and those of other systems, by name."""

from __future__ import annotations

__all__: list[str] = []
