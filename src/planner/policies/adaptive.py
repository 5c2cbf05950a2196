"""Our own policy: new and old checkpoints compete for the budget in one optimisation.

It keeps the set that makes expected replay plus the price of saving least (`selection`). Of a prompt whose messages
are known, the offsets that templates and clients roll back to are pinned: a stored one is given up only if the budget
is less than the pins, and a new one is saved whenever that pays for itself. Without the pins, in a long tool loop, an
ever denser tail would win over a rollback that is rare but certain to come. If the budget is less than the pins, the
tail is kept first and the most useful pins beside it: the prior looks one prompt ahead, and a tail that is not saved is
replayed by every prompt until one is, a tail that grows all the while. Of other prompts the prior knows from real
sessions how often each place is returned to in the long run, and nothing is pinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from typing import NamedTuple, final

from planner.expectation.prior import prior_of
from planner.expectation.roles import Roles, near_end
from planner.offsets import Kind
from planner.optimum.selection import Point, select
from planner.outcome import Eviction
from planner.policies.situation import Mark, Placement, Situation
from planner.policies.tiles import TILE, on_tiles
from planner.request import PlanRequest

_LEAST_GAIN = 2.0
"""Expected tokens that a save must be worth however cheap it is: no two are kept a few tokens apart for nothing."""

TRUST = 2.0
"""How many times dearer a choice may be for what a request says is likely, if none of that comes true."""

_DOUBTS = (0.25, 0.05)
"""Parts of that to go by where all of it would be dearer."""

_MOST_STRIDES = 64
"""Offsets that the planner adds by itself where candidates are far apart."""

_SHARE = 0.1
"""Breaks beyond the first may take so much of the time that the evaluation takes; what is expected to pay for them
comes later, if it comes."""

_UNNOTICED = 0.1
"""Seconds of breaks that nobody minds."""


@final
class _Place(NamedTuple):
    """An offset that is stored, or could be saved on the way to the prompt's end.

    `early`: how many tokens before the place that it stands for.
    """

    offset: int
    kind: Kind
    size: int
    price: float
    held: bool
    early: int = 0


def place_adaptive(situation: Situation) -> Placement:
    """The stored checkpoints to keep and the new ones to save."""
    places = possible_places(situation)
    chosen = _trusted(situation, places)
    stored = [place for place in places if place.held]
    keep = [place for place in stored if place.offset in chosen]
    saves = [place for place in places if place.offset in chosen and not place.held]
    return _placement(situation, stored, _on_tiles(situation, keep, saves), {place.offset for place in keep})


def _trusted(situation: Situation, places: list[_Place]) -> set[int]:
    """The choice by all that is expected, or by less of what the request says is likely.

    Should that be wrong and the rest of the prior right, it costs at most `TRUST` times what would have been chosen
    without it.
    """
    request, chosen = situation.request, _chosen(situation, places)
    if not request.likely:
        return chosen
    doubting = situation._replace(prior=prior_of(request, situation.roles, trust=0.0))
    without = _chosen(doubting, places)
    limit = TRUST * cost_of(doubting, places, without)
    for trust in _DOUBTS:
        if cost_of(doubting, places, chosen) <= limit:
            return chosen
        chosen = _chosen(situation._replace(prior=prior_of(request, situation.roles, trust=trust)), places)
    return chosen if cost_of(doubting, places, chosen) <= limit else without


def cost_of(situation: Situation, places: Iterable[_Place], chosen: Set[int]) -> float:
    """Expected seconds of replay from the offsets `chosen`, and what saving the new ones costs."""
    replay = situation.prior.rate * situation.prior.replay(sorted(chosen))
    prices = sum(place.price for place in places if place.offset in chosen)
    return replay * situation.request.costs.seconds_per_token + prices


def _chosen(situation: Situation, places: list[_Place]) -> set[int]:
    while True:
        chosen = set(wish_of(situation, places))
        unpaid = _unpaid_break(situation, places, chosen)
        if unpaid is None:
            return chosen
        places = [place for place in places if place.offset != unpaid]


def _unpaid_break(situation: Situation, places: list[_Place], chosen: Set[int]) -> int | None:
    """The break worth least beside all that is kept, if it is not worth its price or all of them cost too much."""
    request, prior = situation.request, situation.prior
    new = [p.offset for p in places if p.offset in chosen and not p.held and p.offset < request.prompt_tokens]
    if not new:
        return None
    costs, kept = request.costs, sorted(chosen)
    gains = {offset: prior.replay([o for o in kept if o != offset]) - prior.replay(kept) for offset in new}
    rate = prior.rate * costs.seconds_per_token
    surplus = {offset: rate * gains[offset] - request.price_of(offset) for offset in new}
    allowed = max(_UNNOTICED, _SHARE * (request.prompt_tokens - situation.begin) * costs.seconds_per_token)
    least = min(new, key=lambda offset: surplus[offset])
    if len(new) > 1 and sum(map(request.price_of, new)) > allowed:
        return least
    return least if surplus[least] < 0 else None


def wish_of(situation: Situation, places: list[_Place]) -> tuple[int, ...]:
    """The offsets that make expected seconds least among those that hold what is required, as far as the budget can;
    whether each break pays for itself is another question."""
    prior, costs, budget = situation.prior, situation.request.costs, situation.request.budget
    rate, per_restore = prior.rate * costs.seconds_per_token, prior.rate * costs.per_restore
    wished = (
        select(points, prior, budget, rate=rate, per_restore=per_restore) for points in _wishes(situation, places)
    )
    return next((offsets for offsets in wished if offsets is not None), ())


def _wishes(situation: Situation, places: list[_Place]) -> Iterator[list[Point]]:
    """What to choose from, with what is required; the next if the budget cannot hold that."""
    if situation.roles.marked:
        tail = _tail(situation, places)
        pins = {place.offset for place in _pinned(situation, places)}
        some = [place for place in places if place.offset in pins or place.offset == tail]
        yield _points(places, _required(situation, places) | {tail})
        yield _points(some, {tail})
        # Where sizes differ, the bytes may not hold even the tail.
        yield _points(some, set())
    else:
        yield _points(places, set())


def possible_places(situation: Situation) -> list[_Place]:
    """All that may be kept, ascending: what is stored, and offsets to be evaluated where a state may be saved."""
    request, n = situation.request, situation.request.prompt_tokens
    costs = request.costs
    kinds: dict[int, Kind] = dict.fromkeys(_strides(situation), "stride")
    kinds |= dict.fromkeys(near_end(request), "near_end")
    kinds |= {end: "media_end" for _, end in request.forbidden}
    kinds |= {candidate.offset: candidate.kind for candidate in request.candidates}
    kinds |= {offset: "wanted" for offset in request.wanted if offset not in kinds}
    kinds |= {likely.offset: "likely" for likely in request.likely if likely.offset not in kinds}
    kinds[n] = "prompt_end"
    places = {
        e.offset: _Place(e.offset, kinds.get(e.offset, "custom"), request.size_of(e), 0.0, True) for e in situation.held
    }
    for offset, kind in kinds.items():
        # Inside a block nobody can tell whether the next prompt is still the same.
        aligned = offset % request.block == 0 or offset == n
        if situation.begin < offset and offset not in places and aligned and request.allows(offset):
            price = max(request.price_of(offset), _LEAST_GAIN * costs.seconds_per_token)
            places[offset] = _Place(offset, kind, request.bytes_at(offset), price, False)
    return [places[offset] for offset in sorted(places)]


def _strides(situation: Situation) -> Iterable[int]:
    """Multiples of n_ubatch (doubled while they are too many) where neighbouring candidates are further apart."""
    request, begin = situation.request, situation.begin
    step = -(-request.n_ubatch // request.block) * request.block
    while (request.prompt_tokens - begin) // step > _MOST_STRIDES:
        step *= 2
    known = sorted({begin, request.prompt_tokens, *(c.offset for c in request.candidates if c.offset > begin)})
    for left, right in pairwise(known):
        if right - left > step:
            yield from range((left // step + 1) * step, right, step)


def _pins(roles: Roles, request: PlanRequest) -> list[int]:
    """Offsets that prompts return to, the most useful first."""
    named = (roles.messages_end, roles.system_end, roles.last_user_end, roles.last_stable, roles.last_user_start)
    declared = [*request.wanted, *(c.offset for c in request.candidates if c.kind == "wanted")]
    return list(dict.fromkeys(offset for offset in (*named, *declared) if offset is not None))


def _pinned(situation: Situation, places: list[_Place]) -> Iterator[_Place]:
    """The places of the pins; of one that was saved early (`_on_tiles`) that."""
    by_offset = {place.offset: place for place in places}
    for offset in _pins(situation.roles, situation.request):
        near = (by_offset.get(o) for o in range(offset, offset - TILE, -1))
        place = next((p for p in near if p is not None and (p.held or p.offset == offset)), None)
        if place is not None:
            yield place


def _required(situation: Situation, places: list[_Place]) -> set[int]:
    """The pins that are stored, and those whose saving pays for itself beside all that is stored."""
    kept = [place.offset for place in places if place.held]
    required: set[int] = set()
    for place in _pinned(situation, places):
        if _pays(situation, kept, place):
            kept = sorted({*kept, place.offset})
            required.add(place.offset)
    return required


def _tail(situation: Situation, places: list[_Place]) -> int | None:
    """The state that keeps what is new in this prompt, None if the live state is expected to.

    Where the answer begins if a save there pays for itself, else the prompt's end, which takes no break, else the
    last that is stored.
    """
    if situation.begin > 0 and situation.begin == situation.request.live:
        # History has the last answer just as it was sampled, so the next prompt is expected to extend the memory too.
        return None
    by_offset = {place.offset: place for place in places}
    stored = [place.offset for place in places if place.held]
    for offset in (situation.roles.messages_end, situation.request.prompt_tokens):
        place = None if offset is None else by_offset.get(offset)
        if place is not None and _pays(situation, stored, place):
            return place.offset
    return max(stored, default=None)


def _pays(situation: Situation, kept: list[int], place: _Place) -> bool:
    """Whether a checkpoint is stored already, or beside `kept` saves more replay than it costs."""
    prior = situation.prior
    gain = prior.replay(kept) - prior.replay(sorted({*kept, place.offset}))
    return place.held or prior.rate * gain * situation.request.costs.seconds_per_token >= place.price


def _points(places: Iterable[_Place], required: Set[int | None]) -> list[Point]:
    return [Point(place.offset, place.price, place.size, place.offset in required) for place in places]


def _on_tiles(situation: Situation, stored: list[_Place], saves: list[_Place]) -> list[_Place]:
    """What is to be saved, each where the break costs least; a place that is moved is a multiple of a step.

    What somebody named stays where it is, and where other conversations begin; what else is pinned stays unless a short
    step follows it.
    """
    request, prior = situation.request, situation.prior
    if request.block > 1:
        return saves
    held = [place.offset for place in stored]
    fixed = {save.offset for save in saves if save.kind in ("wanted", "likely", "media_end", "prompt_end")}
    fixed.update(end for end in (situation.roles.tools_end, situation.roles.system_end) if end is not None)

    def replay(*offsets: int) -> float:
        return prior.rate * prior.replay(sorted([*held, *offsets]))

    def accepts(places: Sequence[int], index: int, target: int) -> bool:
        if places[index] in fixed or not request.allows(target):
            return False
        moved = [*places[:index], target, *places[index + 1 :]]
        after = replay(*moved)
        if after - replay(*places) >= _LEAST_GAIN:
            return False
        # The closer one comes to the place before it, the less is that one worth.
        return all(
            (replay(*moved[:i], *moved[i + 1 :]) - after) * request.costs.seconds_per_token
            >= request.price_of(moved[i])
            for i in range(max(0, index - 1), index + 1)
        )

    exact = fixed.union(_pins(situation.roles, request))
    moved = on_tiles(situation.begin, [save.offset for save in saves], request.prompt_tokens, exact, accepts)
    return [_earlier(request, save, offset) for save, offset in zip(saves, moved, strict=True)]


def _earlier(request: PlanRequest, place: _Place, offset: int) -> _Place:
    early = place.offset - offset
    return place._replace(offset=offset, kind="stride", size=request.bytes_at(offset), early=early) if early else place


def _placement(situation: Situation, stored: list[_Place], saves: list[_Place], keep: Set[int]) -> Placement:
    """Save what is new; give up stored checkpoints not in `keep`, the least useful first, only as room is needed."""
    request = situation.request
    chosen = keep | {save.offset for save in saves}
    unchosen = sorted(
        (place for place in stored if place.offset not in keep),
        key=lambda place: _worth(situation, chosen, place.offset),
    )
    messages = {c.offset: c.message for c in request.candidates if c.message is not None}
    evict: list[Eviction] = []
    count, size = len(stored), sum(place.size for place in stored)
    marks: list[Mark] = []
    for save in (None, *saves):
        count, size = count + (save is not None), size + (save.size if save else 0)
        while not request.budget.holds(count, size):
            gone = unchosen.pop(0)
            count, size = count - 1, size - gone.size
            worth = _worth(situation, chosen, gone.offset)
            reason = f"beside the others it would save {worth:.1f} expected tokens, the least"
            evict.append(Eviction(gone.offset, reason, save.offset if save else None))
        if save is not None:
            message = messages.get(save.offset + save.early)
            before = "" if message is None else f" (before message {message})"
            early = f"; {save.early} tokens early, so that attention computes whole tiles" if save.early else ""
            marks.append(Mark(save.offset, save.kind, _reason(situation, save) + before + early))
    return Placement(tuple(marks), tuple(evict))


def _worth(situation: Situation, kept: Set[int], offset: int) -> float:
    """Expected tokens that one more checkpoint saves."""
    return situation.prior.replay(sorted(kept)) - situation.prior.replay(sorted(kept | {offset}))


def _reason(situation: Situation, place: _Place) -> str:
    roles, n, offset = situation.roles, situation.request.prompt_tokens, place.offset + place.early
    if offset == roles.system_end:
        return "system text and tools end here: a new conversation with them starts from here"
    if offset == roles.last_user_end:
        return "the last user message ends here: reasoning after it is dropped when the user writes again"
    if offset == roles.messages_end:
        return "the answer is about to begin: rendered again as history it may read otherwise"
    if offset == roles.last_stable:
        return "the last offset that later messages cannot change"
    if offset == roles.last_user_start:
        return "the last user message begins here: it may be edited or sent again"
    if offset == n:
        return "the prompt's end, saved after the decode that completes it: no break"
    if place.kind in ("wanted", "media_end"):
        return "a client declared this offset" if place.kind == "wanted" else "media ends here: it is dear to evaluate"
    if place.kind == "likely":
        return "learned split: earlier prompts parted here, or the template rewrites what follows"
    return f"keeps a later divergence near: {n - offset} tokens before the prompt's end"
