"""What a replay gives, request by request and in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

from planner.budget import Costs
from planner.outcome import Plan
from planner.request import PlanRequest

Reason = Literal["no-common-prefix", "diverged", "state-missing", "evicted", "budget"]
"""Why a prompt was not simply continued from the tip. `no-common-prefix`: it shares nothing with what was there.
`diverged`: it parts from it, and all that is shared was restored. The others evaluate again what was there:
`evicted`: a state was given up that would have served better; `budget`: none may be kept; else `state-missing`."""

LONG_REPLAY = 4096
"""Replays of more tokens than this are counted."""


@final
class Outcome(NamedTuple):
    """One request. All in tokens but for `saves`, `breaks` (numbers) and `bytes` (stored after it).

    bound: what a checkpoint at every offset would have left to evaluate. restored: where evaluation began.
    shared: what the prompt has in common with what was there. kept: offsets stored after it.
    """

    first: bool
    length: int
    evaluated: int
    bound: int
    restored: int
    shared: int
    saves: int
    breaks: int
    reason: Reason | None
    kept: tuple[int, ...]
    bytes: int

    @property
    def replay(self) -> int:
        """Tokens evaluated again although they were there."""
        return max(0, self.evaluated - self.bound)


def outcome_of(
    plan: Plan,
    request: PlanRequest,
    stored: Iterable[tuple[int, int]],
    *,
    first: bool,
    bound: int,
    reason: Reason | None,
) -> Outcome:
    """What the plan of `request` came to; `stored` holds offset and bytes of all that is kept after it."""
    begin = plan.restore.offset if plan.restore else 0
    kept = sorted(stored)
    return Outcome(
        first=first,
        length=request.prompt_tokens,
        evaluated=request.prompt_tokens - begin,
        bound=bound,
        restored=begin,
        shared=request.common_prefix,
        saves=len(plan.saves),
        breaks=plan.breaks,
        reason=reason,
        kept=tuple(offset for offset, _ in kept),
        bytes=sum(size for _, size in kept),
    )


def reason_of(request: PlanRequest, begin: int, lost: Collection[int]) -> Reason:
    """Why a prompt that was not continued from the tip evaluates what it does; `lost`: states of its path given up."""
    shared = request.common_prefix
    if shared == 0:
        return "no-common-prefix"
    if begin >= min(shared, request.prompt_tokens - 1):
        return "diverged"
    if request.budget.checkpoints == 0:
        return "budget"
    return "evicted" if any(begin < offset <= shared for offset in lost) else "state-missing"


@final
@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the requests of a trace; `requests` counts those that are not the first of their session.

    full_resets: nothing was restored although the bound restores something. replay_p50, p95, p99: of the replays of
    these requests, by nearest rank. seconds: under the cost model. bytes: most that was stored at once, None if the
    size of a checkpoint is unknown.
    """

    requests: int
    evaluated: int
    bound: int
    full_resets: int
    replays_over_4096: int
    saves: int
    breaks: int
    replay_p50: int
    replay_p95: int
    replay_p99: int
    seconds: float
    bytes: int | None
    reasons: Mapping[str, int]
    saves_per_request: float

    @property
    def ratio(self) -> float:
        """Evaluated over bound, 1.0 at best."""
        return self.evaluated / self.bound if self.bound else 1.0


def total(outcomes: Iterable[Outcome], costs: Costs, *, sized: bool) -> Totals:
    """Sum up; `sized` says whether the bytes of checkpoints are known."""
    evaluated = bound = saves = breaks = restores = full = most = count = 0
    replays: list[int] = []
    reasons: Counter[str] = Counter()
    for outcome in outcomes:
        count += 1
        evaluated, bound = evaluated + outcome.evaluated, bound + outcome.bound
        saves, breaks = saves + outcome.saves, breaks + outcome.breaks
        most = max(most, outcome.bytes)
        if outcome.first:
            continue
        replays.append(outcome.replay)
        full += outcome.restored == 0 and outcome.shared > 0 and outcome.replay > 0
        restores += outcome.reason is not None and outcome.restored > 0
        if outcome.reason is not None:
            reasons[outcome.reason] += 1
    replays.sort()
    seconds = (
        evaluated * costs.seconds_per_token
        + breaks * costs.per_break
        + saves * costs.per_save
        + restores * costs.per_restore
    )
    return Totals(
        requests=len(replays),
        evaluated=evaluated,
        bound=bound,
        full_resets=full,
        replays_over_4096=sum(replay > LONG_REPLAY for replay in replays),
        saves=saves,
        breaks=breaks,
        replay_p50=_rank(replays, 50),
        replay_p95=_rank(replays, 95),
        replay_p99=_rank(replays, 99),
        seconds=seconds,
        bytes=most if sized else None,
        reasons=dict(sorted(reasons.items())),
        saves_per_request=saves / count if count else 0.0,
    )


def _rank(ascending: list[int], percent: int) -> int:
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)] if ascending else 0
