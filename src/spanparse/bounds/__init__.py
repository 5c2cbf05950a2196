"""What a template may cost: every operation weighed before it runs."""

from __future__ import annotations

__all__: list[str] = []
