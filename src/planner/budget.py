"""What may be kept, and what keeping it costs. Sizes count bytes, durations seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """How many checkpoints, and how many bytes of them, may exist at any moment; None is no limit.

    On a memory that is not dense it counts every recoverable state except the tip, the live state at the end of the
    most recent request. So a checkpoint at the prompt end counts: the tip moves on as the answer is decoded.
    """

    checkpoints: int | None = None
    bytes: int | None = None

    def holds(self, count: int, size: int) -> bool:
        """Whether so many checkpoints, of `size` bytes in all, are within it."""
        return (self.checkpoints is None or count <= self.checkpoints) and (self.bytes is None or size <= self.bytes)


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. Measured ones are better; the defaults are of the order of a 30-billion-parameter hybrid on one GPU.

    seconds_per_token: evaluating one prompt token; llama.cpp users report 250 (27B) to 950 (35B-A3B) tokens a second.
    per_break: a forced batch boundary, about one more pass over the weights; 10 s on a pipeline of ten hosts
    (a fork's note on llama.cpp PR 20288), on a processor a part of a tile of attention (`planner.policies.tiles`).
    per_save, per_restore: copying one state out of the memory and back; 0.2 ms (0.4 MB) to 50 ms (190 MiB) are
    reported.
    """

    seconds_per_token: float = 0.002
    per_break: float = 0.01
    per_save: float = 0.002
    per_restore: float = 0.005
