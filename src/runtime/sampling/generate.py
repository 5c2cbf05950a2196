"""Continuing a conversation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.sampling.answer import Answer, Generated
from runtime.sampling.parameters import Sampling
from runtime.sampling.sampler import Sampler
from runtime.tree.branch import Branch


def generate(
    branch: Branch, sampling: Sampling, max_tokens: int, on_text: Callable[[str], object] | None = None
) -> Generated:
    """Continue `branch`, whose last token was evaluated with logits, by at most `max_tokens`.

    The last token is not evaluated, since nothing needs what comes after it. Stops short when the context is full.
    `on_text` is given each stretch of text, never empty, as soon as it is certain (see `Answer`).
    Raises `DecodeError`, `DeadEnd`, `GrammarTooCostly`, and `RequestError` as `Sampler` does.
    """
    context = branch.context
    answer = Answer(context.model, sampling, max_tokens)
    token = np.zeros(1, dtype=np.int32)
    with Sampler(context.model, sampling) as sampler:
        if sampling.penalises:
            sampler.remember(branch.tokens[-sampling.repeat_last_n :].tolist())
        while answer.finish is None:
            chosen, logprob = sampler.sample(context.logits())
            text = answer.add(chosen, logprob)
            if answer.finish is None and branch.length == context.n_ctx:
                text += answer.end("length")
            if text and on_text is not None:
                on_text(text)
            if answer.finish is None:
                token[0] = chosen
                branch.evaluate(token, logits=True)
    return answer.result()
