"""Every policy: its name, what it does and what places its checkpoints.

A new one is a function from a `Situation` to a `Placement`, an entry here, and its name in `PolicyName`. The table of
docs/planner.md is this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, final

from planner.policies import baselines, thinning
from planner.policies.adaptive import place_adaptive
from planner.policies.situation import Placement, Situation
from planner.request import PolicyName


@final
class Policy(NamedTuple):
    """How a policy places checkpoints, and in words what it `saves` and what it `gives_up` first.

    place: its decision; pure. knows_branches: it weighs the states of other conversations too; without, a memory gives
    them up. knows_timeouts: states on the way are added to what it places, for a client that gives up.
    """

    place: Callable[[Situation], Placement]
    saves: str
    gives_up: str
    knows_branches: bool = False
    knows_timeouts: bool = False


REGISTRY: Mapping[PolicyName, Policy] = {
    "adaptive": Policy(
        place_adaptive,
        "what lowers the expected replay by more than it costs; the ends of system text and last user message "
        "and the start of the answer before all",
        "what would save least; those three last, the start of the answer last of all",
        knows_branches=True,
        knows_timeouts=True,
    ),
    "barriers": Policy(
        baselines.place_barriers,
        "user messages `min_step` apart, the last one always, {4 + n_ubatch, 4} tokens before the end "
        "(llama.cpp's server, b11549)",
        "what is within `min_step` of its predecessor, then the oldest",
    ),
    "near-end-pair": Policy(
        baselines.place_near_end_pair, "{4 + n_ubatch, 4} tokens before the end (llama.cpp PR 20288)", "the oldest"
    ),
    "shallow": Policy(baselines.place_shallow, "4 tokens before the end (a fork's note on that PR)", "the oldest"),
    "deferred": Policy(
        baselines.place_deferred, "the prompt's end, after the decode that completes it (the same fork)", "the oldest"
    ),
    "every-n": Policy(
        baselines.place_every_n,
        "multiples of `every_n` and the prompt's end (JamePeng's llama-cpp-python)",
        "the oldest",
    ),
    "variance": Policy(
        thinning.place_variance,
        "every `every_n` tokens between batches, and 5 tokens before the end (ik_llama.cpp's server)",
        "what leaves the gaps between the others with the least variance; the newest never",
    ),
    "smallest-gap": Policy(
        thinning.place_smallest_gap,
        "after each batch, before the last message, the prompt's end (Rapid-MLX)",
        "what is closest to its predecessor",
    ),
    "log-spaced": Policy(
        thinning.place_log_spaced,
        "the end of the system text, and doubling distances from the prompt's end",
        "what lies between neighbours that are nearly as far from the end; the end of the system text never",
    ),
    "marconi": Policy(
        thinning.place_marconi,
        "the prompt's end, and where the prompt leaves what it shares with earlier ones (Marconi, arXiv 2411.19379)",
        "the lowest sum of recency and tokens saved for a byte",
    ),
    "even": Policy(
        thinning.place_even,
        "where a stream of unknown length keeps no gap longer than 1.55 × length / (K + 1) + 1 token "
        "(`planner.optimum.stream`)",
        "what that rule gives up",
    ),
    "none": Policy(baselines.place_none, "nothing", "all"),
}
