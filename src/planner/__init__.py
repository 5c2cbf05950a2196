"""Where to save, restore and give up memory states of a language model, so that little is evaluated twice.

Pure planning, for any server: `plan(PlanRequest(...))` gives a `Plan`. Importing this package loads the standard
library only, and little of it; the planning modules are loaded by the first plan, pydantic by the first JSON or schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.budget import Budget, Costs
from planner.errors import PlannerError, PlanRequestError
from planner.memory import MemoryKind
from planner.offsets import Candidate, Existing, Kind, Likely
from planner.outcome import Comparison, Eviction, Plan, Restore, Step
from planner.request import POLICIES, PlanRequest, PolicyName

if TYPE_CHECKING:
    from planner.comparison import compare
    from planner.learning import Divergence, Planner
    from planner.planning import plan
    from planner.schema import json_schema, read_request, write_plan
    from planner.states import Loss, State, States

__all__ = [
    "POLICIES",
    "Budget",
    "Candidate",
    "Comparison",
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
    "compare",
    "json_schema",
    "plan",
    "read_request",
    "write_plan",
]


# Who only plans need not wait for all of it.
_LATER = {"compare": "comparison", "plan": "planning"}
_LATER |= dict.fromkeys(("Divergence", "Planner"), "learning")
_LATER |= dict.fromkeys(("Loss", "State", "States"), "states")
_LATER |= dict.fromkeys(("json_schema", "read_request", "write_plan"), "schema")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"planner.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
