"""What a request comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from runtime.attachment import MediaChunk
from runtime.report import Report
from runtime.sampling import Finish, Logprob, Sampling


@final
@dataclass(frozen=True, slots=True)
class Completion:
    """An answer and what it cost.

    `output` spells control tokens out, and ends before a stop text. `token_ids` are the prompt's, `output_ids` the
    answer's without the token that ended it. `logprobs` are the answer's, empty unless asked for. `logits`, of shape
    (n_vocab,), follow the prompt; None unless asked for, or if it was cancelled. `media` are the prompt's, kept with
    the logits for those who compare them.
    """

    report: Report
    output: str
    finish: Finish
    token_ids: tuple[int, ...] = field(repr=False)
    output_ids: tuple[int, ...] = field(repr=False)
    sampling: Sampling
    logprobs: tuple[Logprob, ...] = field(repr=False, default=())
    logits: npt.NDArray[np.float32] | None = field(repr=False, default=None)
    media: tuple[MediaChunk, ...] = field(repr=False, default=())
