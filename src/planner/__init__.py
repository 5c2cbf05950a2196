"""Where to save, restore and give up memory states of a language model, so that little is evaluated twice.

Pure planning, for any server: `plan(PlanRequest(...))` gives a `Plan`. Importing this package loads the standard
library only; pydantic is loaded when JSON or a schema is first asked for.
"""

from __future__ import annotations

from typing import Any, Literal

from planner.errors import PlannerError, PlanRequestError
from planner.outcome import Eviction, Plan, Restore, Step
from planner.planning import POLICIES, plan
from planner.request import Budget, Candidate, Costs, Existing, Kind, MemoryKind, PlanRequest, PolicyName

__all__ = [
    "POLICIES",
    "Budget",
    "Candidate",
    "Costs",
    "Eviction",
    "Existing",
    "Kind",
    "MemoryKind",
    "Plan",
    "PlanRequest",
    "PlanRequestError",
    "PlannerError",
    "PolicyName",
    "Restore",
    "Step",
    "json_schema",
    "plan",
]


def json_schema(which: Literal["request", "plan"] = "request") -> dict[str, Any]:
    """The JSON schema of what `PlanRequest.from_json` reads, or of what `Plan.to_json` writes; pydantic is loaded
    here."""
    from planner.schema import schema_of

    return schema_of(which)
