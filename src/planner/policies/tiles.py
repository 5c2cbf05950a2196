"""Where a break costs little: attention computes tokens in tiles, and a part of a tile takes as long as all of it.

llama.cpp's flash attention takes `TILE` tokens at once on a processor, and fewer one by one: after 11,000 tokens of a
small hybrid model a batch of 64 takes 95 ms, one of 32 takes 490 (`bench/prefill_speed.py` measures what comes of it).
So a break that a few tokens do not matter to goes to the last whole tile before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

TILE = 64
"""Tokens that attention computes at once: ggml-cpu's `GGML_FA_TILE_Q`. Tiles of graphics processors divide it."""

_SHORT = TILE * 3 // 4
"""The longest step that is avoided. A user message that is hardly less than a tile begins where it begins."""

_LEAST_SPAN = 8
"""How many times as far away the stop before must be as such a move is long: what is restored there loses no more."""

Accepts = Callable[[Sequence[int], int, int], bool]
"""Whether, of ascending offsets, the one with that index may be another offset instead."""


def on_tiles(begin: int, saves: Sequence[int], end: int, exact: Set[int], accepts: Accepts) -> list[int]:
    """For each of the ascending offsets `saves`, where a state is saved instead, [begin, end) being evaluated.

    The step to each is whole tiles, unless it is in `exact`. One that is followed by a short step moves in any case, so
    that a tile follows, unless that is the end of the prompt.
    """
    places = list(saves)
    for i, offset in enumerate(places):
        last = places[i - 1] if i else begin
        target = offset - (offset - last) % TILE
        if offset not in exact and last < target < offset and accepts(places, i, target):
            places[i] = target
    for i in range(len(places) - 2, -1, -1):
        last, offset, following = places[i - 1] if i else begin, places[i], places[i + 1]
        target = following - TILE
        short = following < end and following - offset <= _SHORT
        if short and (offset - target) * _LEAST_SPAN <= offset - last and accepts(places, i, target):
            places[i] = target
    return places
