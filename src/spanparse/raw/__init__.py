"""Spans of prompts that are already rendered, such as text completions and logs: a guess, and called one."""

from __future__ import annotations

from spanparse.raw.find import find_spans

__all__ = ["find_spans"]
