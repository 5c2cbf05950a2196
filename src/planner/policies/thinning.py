"""Policies of other systems that give up what leaves the smallest hole, or is worth least, instead of the oldest.

`variance` is ik_llama.cpp's server (pull requests 1310, 1346, 2020 and 2491), `smallest-gap` Rapid-MLX's list of
hybrid states, `marconi` the policy of Marconi (Pan et al., arXiv 2411.19379) as far as one prompt shows it,
`log-spaced` a rule of thumb that backups follow, and `even` what can be promised without knowing anything
(`planner.optimum.stream`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import pvariance

from planner.expectation.roles import NEAR_END
from planner.offsets import BARRIERS
from planner.optimum.stream import evenly
from planner.outcome import Eviction
from planner.policies.queue import Queue, Victim
from planner.policies.situation import Mark, Placement, Situation

_MOST = 64
"""Checkpoints that `even` keeps at most, whatever the budget."""

_TOLERANCE = 5
"""Tokens before the prompt's end at which ik_llama.cpp saves (--ctx-checkpoints-tolerance)."""


def place_variance(situation: Situation) -> Placement:
    """Save every `every_n` tokens, between batches, and 5 tokens before the prompt's end.

    Without room the one goes whose absence leaves the gaps between the others with the least variance. The first and
    the last may not go (the log in pull request 1990 tells so, its variances are those that are computed here), nor
    the newest, which stands at a prompt's end. Left out: the states that it saves while an answer is decoded.
    """
    request, n = situation.request, situation.request.prompt_tokens
    end = n - _TOLERANCE

    def rule(stored: Sequence[int], coming: int | None) -> Victim:
        offsets = sorted(stored)
        inner = offsets[1:-1] or offsets
        # The list is in order of age.
        free = [offset for offset in inner if offset != stored[-1]] or inner

        def spread(without: int) -> float:
            left = [offset for offset in offsets if offset != without]
            return pvariance([b - a for a, b in pairwise(left)]) if len(left) > 2 else 0.0

        return Victim(min(free, key=spread), "without it the gaps between the others differ least")

    queue = Queue(situation, rule)
    last = max((existing.offset for existing in situation.held), default=0)
    for offset in range(situation.begin + request.n_batch, end, request.n_batch):
        if offset - last >= request.every_n and request.allows(offset):
            queue.save(Mark(offset, "stride", f"{offset - last} tokens after the last one"))
            last = offset
    if end > situation.begin and request.allows(end):
        queue.save(Mark(end, "near_end", f"{_TOLERANCE} tokens before the prompt's end"))
    return queue.placement()


def place_smallest_gap(situation: Situation) -> Placement:
    """Save after each batch, before the last message, and at the prompt's end.

    Without room the one goes that is closest to its predecessor; the newest stays.
    """
    request, n = situation.request, situation.request.prompt_tokens

    def rule(stored: Sequence[int], coming: int | None) -> Victim:
        offsets = sorted(stored)
        before = dict(zip(offsets, (0, *offsets), strict=False))
        free = offsets[:-1] if coming is None and len(offsets) > 1 else offsets
        offset = min(free, key=lambda offset: offset - before[offset])
        return Victim(offset, f"only {offset - before[offset]} tokens after the one before it, the smallest gap")

    queue = Queue(situation, rule)
    kinds = {c.offset: c.kind for c in request.candidates if c.kind in BARRIERS and c.kind != "generation_prompt"}
    last = max(kinds, default=0)
    marks = {
        offset: Mark(offset, "stride", f"a batch of {request.n_batch} tokens ends")
        for offset in range(situation.begin + request.n_batch, n, request.n_batch)
    }
    if last > situation.begin:
        marks[last] = Mark(last, kinds[last], "the last message begins here")
    marks[n] = Mark(n, "prompt_end", "the prompt's end, saved after the decode that completes it: no break")
    for offset in sorted(marks):
        if request.allows(offset):
            queue.save(marks[offset])
    return queue.placement()


def place_log_spaced(situation: Situation) -> Placement:
    """Save at the end of system text and tools, and at distances from the prompt's end that double: 4 tokens, then 4 +
    n_ubatch, 4 + 2 n_ubatch and so on.

    Without room the one goes whose neighbours' distances from the end differ by the smallest factor; the end of the
    system text stays, and so does the newest.
    """
    request, n, system_end = situation.request, situation.request.prompt_tokens, situation.roles.system_end

    def rule(stored: Sequence[int], coming: int | None) -> Victim:
        offsets = sorted({*stored} | ({coming} if coming is not None else set()))
        around = {b: (a, c) for a, b, c in zip((0, *offsets), offsets, offsets[1:], strict=False)}
        free = [offset for offset in around if offset != system_end and offset != coming] or [min(stored)]

        def factor(offset: int) -> float:
            left, right = around.get(offset, (0, n))
            return (n - left + 1) / (n - right + 1)

        return Victim(min(free, key=factor), "its neighbours are nearly as far from the prompt's end")

    queue = Queue(situation, rule)
    distances = [NEAR_END]
    while distances[-1] < n - situation.begin:
        distances.append(NEAR_END + request.n_ubatch * 2 ** (len(distances) - 1))
    marks = {n - d: Mark(n - d, "near_end", f"{d} tokens before the prompt's end") for d in distances}
    if system_end is not None:
        marks[system_end] = Mark(system_end, "system_end", "system text and tools end here")
    for offset in sorted(marks):
        if offset > situation.begin and request.allows(offset):
            queue.save(marks[offset])
    return queue.placement()


def place_marconi(situation: Situation) -> Placement:
    """Save at the prompt's end, and where the prompt leaves what earlier ones had in common with it.

    Without room the one goes with the lowest sum of recency and of what it saves for each byte, in tokens past the one
    before it, both scaled to their largest and weighted alike (Marconi tunes the weight on a sample). Left out: hits of
    other conversations, which count as use there, and the state after the answer.
    """
    request, n = situation.request, situation.request.prompt_tokens
    ages = {existing.offset: existing.age for existing in situation.held}
    sizes = {existing.offset: request.size_of(existing) for existing in situation.held}

    def rule(stored: Sequence[int], coming: int | None) -> Victim:
        offsets = sorted(stored)
        savings = {b: (b - a) / (sizes.get(b) or request.bytes_at(b) or 1) for a, b in pairwise((0, *offsets))}
        most = max(savings.values())
        # What this prompt goes through was used just now.
        recency = {offset: 1 / (1 + (ages.get(offset, 0) if offset < situation.begin else 0)) for offset in offsets}
        offset = min(offsets, key=lambda offset: recency[offset] + savings[offset] / most)
        return Victim(offset, "of recent use and tokens saved for a byte it has the least")

    queue = Queue(situation, rule)
    fork = request.common_prefix
    if situation.begin < fork < n and fork != request.live and request.allows(fork):
        queue.save(Mark(fork, "custom", "here the prompt leaves what earlier ones had in common with it"))
    queue.save(Mark(n, "prompt_end", "the prompt's end, saved after the decode that completes it: no break"))
    return queue.placement()


def place_even(situation: Situation) -> Placement:
    """Save where `planner.optimum.stream` says for a stream that has come this far, whatever diverges."""
    request, n = situation.request, situation.request.prompt_tokens
    count = _MOST if request.budget.checkpoints is None else min(request.budget.checkpoints, _MOST)
    if request.budget.bytes is not None:
        largest = max(request.bytes_at(n), *(request.size_of(held) for held in situation.held), 1)
        count = min(count, request.budget.bytes // largest)
    wanted = set(evenly(count, n))
    marks = [
        Mark(offset, "stride", f"one of {count} that divide the prompt about evenly")
        for offset in sorted(wanted)
        if offset > situation.begin and request.allows(offset)
    ]
    stored = {existing.offset: request.size_of(existing) for existing in situation.held}
    surplus = [offset for offset in stored if offset not in wanted]
    evict: list[Eviction] = []
    saves: list[Mark | None] = [None, *(mark for mark in marks if mark.offset not in stored)]
    for mark in saves:
        if mark is not None:
            stored[mark.offset] = request.bytes_at(mark.offset)
        while not request.budget.holds(len(stored), sum(stored.values())):
            gone = surplus.pop(0) if surplus else min(stored)
            del stored[gone]
            evict.append(Eviction(gone, "the others divide the prompt evenly", mark.offset if mark else None))
    return Placement(tuple(mark for mark in saves if mark is not None and mark.offset in stored), tuple(evict))
