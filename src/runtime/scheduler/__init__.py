"""Continuous batching: one thread that owns the memory and serves several requests at once."""

from __future__ import annotations

from runtime.scheduler.call import Call, Outbox
from runtime.scheduler.scheduler import Scheduler

__all__ = ["Call", "Outbox", "Scheduler"]
