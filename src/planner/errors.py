"""Everything planner raises on purpose.

    PlannerError
    └── PlanRequestError     a request cannot be planned; names the field

Each error's text is one line that names the thing it is about, fit to be shown to a user as it is.
"""

from __future__ import annotations


class PlannerError(Exception):
    """Base of all errors that planner raises on purpose."""


class PlanRequestError(PlannerError):
    """A `PlanRequest` is malformed or contradicts itself.

    `field` is a path such as `existing[2].offset`; the whole request is `request`.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
