"""Every policy by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.adaptive import place_adaptive
from planner.baselines import BASELINES
from planner.request import PolicyName
from planner.situation import Placement, Situation
from planner.thinning import THINNING

PLACEMENTS: Mapping[PolicyName, Callable[[Situation], Placement]] = {
    "adaptive": place_adaptive,
    **BASELINES,
    **THINNING,
}
