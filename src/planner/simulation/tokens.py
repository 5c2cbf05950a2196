"""Sessions whose prompts are token ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from planner.request import Candidate
from planner.simulation.session import Prompt, Session

_BYTES = 4


def token_session(
    name: str, prompts: Iterable[tuple[Sequence[int], tuple[Candidate, ...]]], tools: str | None = None
) -> Session:
    """A session of prompts, each its token ids (32 bits each) and its candidates."""
    packed: list[bytes] = []
    made: list[Prompt] = []
    for ids, candidates in prompts:
        packed.append(array("i", ids).tobytes())
        made.append(Prompt(len(ids), candidates))

    def common(i: int, j: int) -> int:
        return _shared(packed[i], packed[j])

    def nearest(i: int) -> int | None:
        return max(range(i), key=lambda j: (common(i, j), j), default=None)

    return Session(name, tuple(made), common, nearest, tools)


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
