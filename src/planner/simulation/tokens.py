"""Sessions whose prompts are token ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from planner.offsets import Candidate, Likely
from planner.simulation.session import Prompt, Session

_BYTES = 4


def token_session(
    name: str,
    prompts: Iterable[tuple[Sequence[int], tuple[Candidate, ...]]],
    tools: Sequence[str | None] = (),
    likely: Sequence[tuple[Likely, ...]] = (),
) -> Session:
    """A session of prompts, each its token ids (32 bits each) and its candidates; and of each, if known, what tools it
    has and where the next is expected to part from it."""
    packed: list[bytes] = []
    made: list[Prompt] = []
    for (ids, candidates), known, expected in zip_longest(prompts, tools, likely):
        packed.append(array("i", ids).tobytes())
        made.append(Prompt(len(ids), candidates, tools=known, likely=expected or ()))

    def common(i: int, j: int) -> int:
        return _shared(packed[i], packed[j])

    def nearest(i: int) -> int | None:
        return max(range(i), key=lambda j: (common(i, j), j), default=None)

    return Session(name, tuple(made), common, nearest)


def _shared(left: bytes, right: bytes) -> int:
    """Tokens that two prompts begin with alike, by halving what may be: comparing bytes is fast."""
    low, high = 0, min(len(left), len(right)) // _BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if left[low * _BYTES : middle * _BYTES] == right[low * _BYTES : middle * _BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
