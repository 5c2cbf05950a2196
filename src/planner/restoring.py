"""Where the evaluation of a prompt starts."""

from __future__ import annotations

from planner.memory import can_cut
from planner.outcome import Restore
from planner.request import PlanRequest


def restore_of(request: PlanRequest) -> Restore | None:
    """The cheapest start, None for an empty memory.

    It lies at most at the common prefix, and before the last token, since the model must evaluate at least one to say
    what comes next.
    """
    limit = min(request.common_prefix, request.prompt_tokens - 1)
    if limit == 0:
        return None
    if can_cut(request.memory, request.live, request.window):
        return Restore(limit, f"the memory can be cut anywhere: all of {_shared(request, limit)} is reused", "cut")
    costs = request.costs
    options: list[tuple[float, int, Restore | None]] = [(0.0, 0, None)]
    if request.live is not None and 0 < request.live <= limit:
        why = f"the memory is continued as it is, of {_shared(request, limit)}"
        options.append((request.live * costs.seconds_per_token, 1, Restore(request.live, why, "live")))
    nearest = max(
        (e for e in request.existing if e.offset <= limit and not e.beside), key=lambda e: e.offset, default=None
    )
    if nearest is not None:
        offset = nearest.offset
        gain = offset * costs.seconds_per_token - costs.per_restore
        why = f"nearest state at or before the end of {_shared(request, limit)}: {limit - offset} tokens are replayed"
        options.append((gain, 0, Restore(offset, why, "checkpoint", nearest.identity)))
    return max(options, key=lambda option: option[:2])[2]


def _shared(request: PlanRequest, limit: int) -> str:
    text = f"{request.common_prefix} shared tokens"
    return text if limit == request.common_prefix else f"{text} (one of them must be evaluated)"
