"""Proof that an answer does not depend on what was reused: the same prompt, evaluated from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from runtime.closing import Closing
from runtime.completion import Completion
from runtime.engine import Engine
from runtime.llama import Context
from runtime.prefix import as_tokens
from runtime.prompt import Prompt
from runtime.sampling import generate
from runtime.tree.branch import Branch


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a completion compares with a cold run.

    `identical`: the same tokens and the same end. `first_difference`: index of the first generated token that differs.
    `gap`: by how much the cold run's logit of its own token exceeds that of the completion's token there; close to 0,
    two tokens were equally likely and rounding chose. `logit_error`: largest absolute difference of the logits after
    the prompt, None if the completion kept none. It is 0 if the batches were split alike, otherwise rounding.
    """

    identical: bool
    first_difference: int | None
    gap: float | None
    logit_error: float | None
    cold_output: str

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "identical": self.identical,
            "first_difference": self.first_difference,
            "gap": self.gap,
            "logit_error": self.logit_error,
            "cold_output": self.cold_output,
        }


@final
class Verifier(Closing):
    """A second context on the engine's model in which prompts are evaluated from nothing.

    Close it before the engine. Comparing is only fair on an engine with `exact` set: otherwise the rounding of 16-bit
    keys and values, which depends on how batches were split, may change a token where two are almost equally likely.
    """

    def __init__(self, engine: Engine) -> None:
        self._context = Context(engine.model, replace(engine.options, n_seq_max=1))
        self._branch = Branch(self._context, engine.memory, b"")

    def check(self, completion: Completion) -> Verdict:
        """Run the completion's prompt cold and compare; with media it must have been asked for its logits.

        Raises `DecodeError`.
        """
        logits = self._evaluate(completion, ())
        error = None if completion.logits is None else float(np.abs(logits - completion.logits).max())
        # The token that ended the answer was sampled too; after a stop text nothing more is.
        asked = len(completion.output_ids) + (completion.finish == "stop")
        cold = generate(self._branch, completion.sampling, asked)
        difference = _first_difference(cold.ids, completion.output_ids)
        return Verdict(
            identical=difference is None and cold.finish == completion.finish,
            first_difference=difference,
            gap=None if difference is None else self._gap(completion, cold.ids, difference),
            logit_error=error,
            cold_output=cold.text,
        )

    def _gap(self, completion: Completion, cold_ids: Sequence[int], index: int) -> float | None:
        if index >= min(len(cold_ids), len(completion.output_ids)):
            return None
        logits = self._evaluate(completion, cold_ids[:index])
        return float(logits[cold_ids[index]] - logits[completion.output_ids[index]])

    def _evaluate(self, completion: Completion, answer: Sequence[int]) -> npt.NDArray[np.float32]:
        """The logits after the completion's prompt and `answer`, from nothing."""
        branch, tokens = self._branch, as_tokens([*completion.token_ids, *answer])
        prompt = Prompt(tokens, media=completion.media)
        branch.clear()
        while (begin := branch.length) < tokens.size:
            chunk = prompt.media_from(begin)
            if chunk is not None and chunk.begin == begin:
                branch.evaluate_media(tokens[begin : chunk.end], chunk)
            else:
                end = min(begin + branch.n_batch, chunk.begin if chunk else tokens.size)
                branch.evaluate(tokens[begin:end], logits=end == tokens.size)
        return self._context.logits()

    def close(self) -> None:
        """Free the second context. Closing twice is fine."""
        self._context.close()


def _first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return None if len(a) == len(b) else min(len(a), len(b))
