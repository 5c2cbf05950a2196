"""Every policy by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.policies.adaptive import place_adaptive
from planner.policies.baselines import BASELINES
from planner.policies.situation import Placement, Situation
from planner.policies.thinning import THINNING
from planner.request import PolicyName

PLACEMENTS: Mapping[PolicyName, Callable[[Situation], Placement]] = {
    "adaptive": place_adaptive,
    **BASELINES,
    **THINNING,
}
