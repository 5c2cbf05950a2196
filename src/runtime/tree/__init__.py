"""What was evaluated, kept as a prefix tree of sequences, and the requests that move in it: see `tree.Tree`."""

from __future__ import annotations

__all__: list[str] = []
