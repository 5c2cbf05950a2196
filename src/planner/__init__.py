"""Where to save, restore and give up memory states of a language model, so that little is evaluated twice.

Pure planning, for any server: `plan(PlanRequest(...))` gives a `Plan`. Importing this package loads the standard
library only, and little of it; the planning modules are loaded by the first plan, pydantic by the first JSON or schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from planner.errors import PlannerError, PlanRequestError
from planner.outcome import Eviction, Plan, Restore, Step
from planner.request import (
    POLICIES,
    Budget,
    Candidate,
    Costs,
    Existing,
    Kind,
    Likely,
    MemoryKind,
    PlanRequest,
    PolicyName,
)

if TYPE_CHECKING:
    from planner.expectation.learning import Divergence, Planner
    from planner.states import Loss, State, States

__all__ = [
    "POLICIES",
    "Budget",
    "Candidate",
    "Costs",
    "Divergence",
    "Eviction",
    "Existing",
    "Kind",
    "Likely",
    "Loss",
    "MemoryKind",
    "Plan",
    "PlanRequest",
    "PlanRequestError",
    "Planner",
    "PlannerError",
    "PolicyName",
    "Restore",
    "State",
    "States",
    "Step",
    "json_schema",
    "plan",
]


# Who only plans need not wait for these.
_LATER = {"Divergence": "expectation.learning", "Planner": "expectation.learning"}
_LATER |= dict.fromkeys(("Loss", "State", "States"), "states")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"planner.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def plan(request: PlanRequest) -> Plan:
    """Decide what to restore, where to break and save, and what to evict, for one prompt.

    Pure and deterministic: the same request gives the same plan.
    """
    from planner.planning import make_plan

    return make_plan(request)


def json_schema(which: Literal["request", "plan"] = "request") -> dict[str, Any]:
    """The JSON schema of what `PlanRequest.from_json` reads, or of what `Plan.to_json` writes; pydantic is loaded
    here."""
    from planner.schema import schema_of

    return schema_of(which)
