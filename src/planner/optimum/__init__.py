"""The best sets of checkpoints, exactly: on a line, in a tree, knowing the future, and knowing nothing."""

from __future__ import annotations

__all__: list[str] = []
