"""Which prompts are to come, of all conversations that a memory keeps: when each returns, and where it parts."""

from __future__ import annotations

__all__: list[str] = []
