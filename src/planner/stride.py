"""How often a state is saved on the way through a long prompt, so that a try that is cut short is not lost.

A client that gives up after a while sends the same prompt again. If nothing was kept in between, every try starts over
and is cut at the same place, for ever (llama.cpp issue 22160). With states a stride apart a try loses at most one
stride, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

from planner.request import PlanRequest

_FEWEST = 2
"""Strides that must fit into a try: so at least half of each try is kept."""

_MOST_STRIDES = 4096
"""Saves on the way through one prompt; a longer prompt has longer strides where the timeout allows."""


def stride_of(request: PlanRequest) -> int | None:
    """Tokens between two saves at most; None without a timeout, or if it is too short to evaluate and save a token.

    The first-order optimum between the price of saves and what an interruption loses is sqrt(2 · price · time between
    interruptions) seconds (Young, A first order approximation to the optimum checkpoint interval, 1974); here no less
    than a micro-batch, and no more than lets two strides with their saves fit into a try after the restore of R
    seconds. So of T seconds at least (T - R) / 2 are kept, and a prompt that takes S seconds, with all that is saved
    on the way, is done after at most 1 + 2 S / (T - R) tries.
    """
    if request.timeout is None:
        return None
    costs = request.costs
    price = costs.per_save + costs.per_break
    longest = (request.timeout - costs.per_restore) / _FEWEST - price
    if longest < costs.seconds_per_token:
        return None
    best = max(
        sqrt(2 * price * request.timeout),
        request.n_ubatch * costs.seconds_per_token,
        request.prompt_tokens / _MOST_STRIDES * costs.seconds_per_token,
    )
    tokens = int(min(best, longest) / costs.seconds_per_token)
    # A stride of whole micro-batches leaves none half empty.
    return tokens if tokens < request.n_ubatch else tokens // request.n_ubatch * request.n_ubatch


def fill(request: PlanRequest, begin: int, saves: Sequence[int], stride: int) -> Iterator[int]:
    """Offsets between `begin`, the ascending `saves` and the prompt's end that leave no more than `stride` tokens.

    Where media are longer than that, their end is the next one.
    """
    for end in (*saves, request.prompt_tokens):
        while end - begin > stride:
            begin = _next(request, begin, stride)
            if begin >= end:
                break
            yield begin
        begin = end


def _next(request: PlanRequest, begin: int, stride: int) -> int:
    furthest = begin + stride
    for unit in (request.n_ubatch, request.block):
        aligned = furthest // unit * unit
        if aligned > begin and request.allows(aligned):
            return aligned
    offset = next((o for o in range(furthest, begin, -1) if request.allows(o)), None)
    if offset is not None:
        return offset
    return next(o for o in range(furthest + 1, request.prompt_tokens + 1) if request.allows(o))
