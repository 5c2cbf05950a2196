"""What a simulation raises on purpose.

PlannerError
└── TraceError       a trace cannot be read; names file, line and field
"""

from __future__ import annotations

from planner.errors import PlannerError


class TraceError(PlannerError):
    """A trace is malformed or contradicts itself. `where` names the file, and the line if it has lines."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason
