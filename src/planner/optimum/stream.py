"""Where to keep K states of a stream whose length nobody knows, so that no gap is ever much longer than it must be.

With the end known, K states divide the stream into K + 1 equal gaps. With the end unknown, states can only be saved at
the stream's end of that moment, and only be given up later. Then the longest gap can be held to 1.59 times that for
every K, to 1.55 for fewer than 60 (Bringmann, Doerr, Neumann and Sliacan, arXiv 1302.4216), and for many not below
ln 4 = 1.386 (Bar-On, Dinur, Dunkelman, Hod, Keller, Ronen and Shamir, arXiv 1704.02659).

The rule: save as late as the bound on the newest gap allows, then give up the state whose neighbours are closest.
For 4, 6 and 8 states that is not good enough. They follow cycles, in which the times of the saves grow by a factor from
cycle to cycle and the place of the state that goes repeats; found by searching the orders up to five long, with a
linear programme for the times of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple, final

WORST = 1.55
"""The longest gap, in parts of length / (count + 1), at any moment; for 2 to 32 states, up to one token more."""


@final
class _Cycle(NamedTuple):
    """`times` of the saves of one cycle, `growth` times as late in the next; after each the state at `leaves` goes."""

    growth: float
    times: tuple[float, ...]
    leaves: tuple[int, ...]


_CYCLES = {
    4: _Cycle(1.802, (1.0, 1.445), (0, 2)),
    6: _Cycle(3.0198, (1.0, 1.2168, 1.557, 1.9924, 2.5494), (0, 2, 3, 0, 2)),
    8: _Cycle(1.705, (1.0, 1.2018, 1.4187), (0, 2, 3)),
}


def evenly(count: int, length: int) -> tuple[int, ...]:
    """Offsets of the at most `count` states that are kept once the stream is `length` tokens long, ascending.

    Nothing comes back: of the earlier part of a stream a later set holds only what an earlier one does. O(count²
    log(length)).
    """
    kept: tuple[int, ...] = ()
    for moment, after in changes(count):
        if moment > length:
            break
        kept = after
    return kept


def changes(count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The lengths at which a state is saved, without end, each with what is kept from then on, ascending."""
    if count <= 0:
        return iter(())
    return _cyclic(count, _CYCLES[count]) if count in _CYCLES else _greedy(count)


def _greedy(count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    kept: list[int] = []
    share = WORST / (count + 1)
    newest = 0
    while True:
        # The last moment at which the gap since the newest state is at most share · length + 1.
        newest = max(newest + 1, int((newest + 1) / (1 - share) + 1e-9))
        kept.append(newest)
        if len(kept) > count:
            starts = (0, *kept)
            del kept[min(range(count), key=lambda i: kept[i + 1] - starts[i])]
        yield newest, tuple(kept)


def _cyclic(count: int, cycle: _Cycle) -> Iterator[tuple[int, tuple[int, ...]]]:
    period = len(cycle.times)
    # So far back that what the first sets look like does not matter at the first token.
    step = -3 * count * period
    kept: list[float] = []
    while True:
        moment = cycle.times[step % period] * cycle.growth ** (step // period)
        kept.append(moment)
        if len(kept) > count:
            del kept[cycle.leaves[step % period]]
        step += 1
        # Between two tokens a save waits for the next one, and so may two of them.
        if ceil(cycle.times[step % period] * cycle.growth ** (step // period)) > ceil(moment):
            yield ceil(moment), tuple(sorted({ceil(time) for time in kept}))
