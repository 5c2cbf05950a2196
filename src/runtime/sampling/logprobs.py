"""How probable the tokens of an answer were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from runtime.llama import Model


class Logprob(NamedTuple):
    """The natural logarithm of a token's probability, and (token, logarithm) of the likeliest there, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def logprob_of(logits: npt.NDArray[np.float32], token: int, count: int) -> Logprob:
    """The log probability of `token` under `logits`, of shape (n_vocab,), and of the `count` likeliest."""
    values = logits.astype(np.float64)
    values -= values.max()
    values -= np.log(np.exp(values).sum())
    # A stable sort puts the lower id first where two are equally likely.
    top = np.argsort(-values, kind="stable")[:count]
    return Logprob(token, float(values[token]), tuple((int(one), float(values[one])) for one in top))


def logprobs_json(model: Model, logprobs: Iterable[Logprob]) -> dict[str, Any]:
    """As OpenAI's chat completions give them. `bytes` tells what `token` cannot: parts of characters."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        piece = model.piece(token)
        return {"token": piece.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(piece)}

    return {
        "content": [
            {**entry(one.token, one.logprob), "top_logprobs": [entry(*other) for other in one.top]} for one in logprobs
        ]
    }
