"""Renders in a process of their own, within the operating system's limits on memory and processor time."""

from __future__ import annotations

from spanparse.isolation.workers import is_available, isolated, prepare, ready

__all__ = ["is_available", "isolated", "prepare", "ready"]
