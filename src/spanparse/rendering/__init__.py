"""Renders a template, plainly or with marks, within its limits."""

from __future__ import annotations

__all__: list[str] = []
