"""The policies of other systems, for comparison; each names its source.

They keep a list of checkpoints, append to it and drop from its front: on a line that is the order of offsets too.
`near-end-pair` and `shallow` are llama.cpp PR 20288 and a fork's reduction of it, `deferred` the same fork's save right
after the decode that completes the prompt (both quoted on that PR's page), `every-n` is JamePeng's llama-cpp-python
fork (HybridCheckpointCache: every N tokens and at the end, first in first out), `barriers` is llama.cpp's server at
b11549. None of them knows a budget in bytes; here they drop from the front until it is met as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from planner.expectation.roles import NEAR_END
from planner.outcome import Eviction
from planner.policies.queue import Queue
from planner.policies.situation import Mark, Placement, Situation


def place_none(situation: Situation) -> Placement:
    """Keep no checkpoint."""
    return Placement((), tuple(Eviction(e.offset, "the policy keeps none") for e in situation.held))


def place_every_n(situation: Situation) -> Placement:
    """Save at every multiple of `every_n`, and at the prompt's end."""
    request, queue = situation.request, Queue(situation)
    step = request.every_n
    for offset in range(situation.begin // step * step + step, request.prompt_tokens, step):
        if request.allows(offset):
            queue.save(Mark(offset, "stride", f"a multiple of {step} tokens"))
    queue.save(_prompt_end(situation))
    return queue.placement()


def place_near_end_pair(situation: Situation) -> Placement:
    """Save 4 + n_ubatch and 4 tokens before the prompt's end."""
    queue = Queue(situation)
    for mark in _near_end(situation, NEAR_END + situation.request.n_ubatch, NEAR_END):
        queue.save(mark)
    return queue.placement()


def place_shallow(situation: Situation) -> Placement:
    """Save 4 tokens before the prompt's end only."""
    queue = Queue(situation)
    for mark in _near_end(situation, NEAR_END):
        queue.save(mark)
    return queue.placement()


def place_deferred(situation: Situation) -> Placement:
    """Save at the prompt's end only, right after the decode that completes it."""
    queue = Queue(situation)
    queue.save(_prompt_end(situation))
    return queue.placement()


def place_barriers(situation: Situation) -> Placement:
    """Save before user messages and near the end, batch by batch as llama.cpp's server does.

    A batch ends before the last user message, before others if more than `min_step` tokens after the newest
    checkpoint, and {4 + n_ubatch, 4} tokens before the prompt's end. The state at a batch's start is saved before it is
    decoded, if a user message begins there or the batch ends within n_ubatch of the prompt's end: so the state
    that a short continuation starts from is saved too (PR 22929, with the spacing of 25472 and the room rule of 28302).
    Left out: that tool results count as user messages where a template renders them alike, and that a checkpoint
    one token past the common prefix is taken for usable. `tests/conformance/test_barriers.py` plays this policy beside
    the server itself.
    """
    request, queue = situation.request, Queue(situation)
    # The first user message begins where system text and tools end.
    users = {
        c.offset for c in request.candidates if c.kind in ("user_start", "system_end") and request.allows(c.offset)
    }
    last_user = max(users, default=0)
    ends = {mark.offset: mark for mark in _near_end(situation, NEAR_END + request.n_ubatch, NEAR_END)}
    places = sorted(users | ends.keys())

    def spaced(offset: int) -> bool:
        return offset == last_user or queue.last is None or offset > queue.last + request.min_step

    position = situation.begin
    stored = {existing.offset for existing in situation.held}
    while position < request.prompt_tokens:
        limit = min(position + request.n_batch, request.prompt_tokens)
        ahead = places[bisect_right(places, position) : bisect_left(places, limit)]
        end = next((place for place in ahead if place in ends or spaced(place)), limit)
        mark = ends.get(position) or Mark(position, "user_start", "a user message begins")
        near_end = request.prompt_tokens < end + request.n_ubatch
        # The batch was ended here by what was stored then; what has been stored since decides on the save.
        saved = near_end or (position in users and spaced(position))
        if position > situation.begin and (position in ends or position in users):
            if saved:
                queue.save(mark, thin_below=request.min_step)
            else:
                queue.pass_by(mark, "the batch ends before a user message too close to the newest checkpoint")
        elif position == situation.begin > 0 and saved:
            if position in stored:
                queue.renew(position, thin_below=request.min_step)
            else:
                reason = "what a short continuation starts from is saved before anything is evaluated"
                queue.save(Mark(position, "custom", reason), thin_below=request.min_step)
        position = end
    return queue.placement()


def _near_end(situation: Situation, *distances: int) -> Iterator[Mark]:
    request = situation.request
    for distance in distances:
        offset = request.prompt_tokens - min(request.n_batch, distance)
        if offset > situation.begin and request.allows(offset):
            yield Mark(offset, "near_end", f"{request.prompt_tokens - offset} tokens before the prompt's end")


def _prompt_end(situation: Situation) -> Mark:
    reason = "the prompt's end, saved after the decode that completes it: no break"
    return Mark(situation.request.prompt_tokens, "prompt_end", reason)
