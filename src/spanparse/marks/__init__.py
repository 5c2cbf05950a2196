"""Characters that remember where in the request they come from."""

from __future__ import annotations

__all__: list[str] = []
