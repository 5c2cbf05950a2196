"""Proof that an answer does not depend on what was reused: the same prompt, evaluated from nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from runtime.engine import Completion, Engine
from runtime.line import Line
from runtime.llama import Context
from runtime.prefix import as_tokens
from runtime.sampling import generate


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a completion compares with a cold run.

    `identical`: the same tokens and the same end. `first_difference`: index of the first generated token that differs.
    `logit_error`: largest absolute difference of the logits after the prompt, None if the completion kept none. It is 0
    if the batches were split alike, otherwise rounding.
    """

    identical: bool
    first_difference: int | None
    logit_error: float | None
    cold_output: str

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "identical": self.identical,
            "first_difference": self.first_difference,
            "logit_error": self.logit_error,
            "cold_output": self.cold_output,
        }


@final
class Verifier:
    """A second context on the engine's model in which prompts are evaluated from nothing.

    Close it before the engine. Comparing is only fair on an engine with `exact` set: otherwise the rounding of 16-bit
    keys and values, which depends on how batches were split, may change a token where two are almost equally likely.
    """

    def __init__(self, engine: Engine) -> None:
        self._context = Context(engine.model, engine.options)
        self._line = Line(self._context, engine.memory, b"")

    def check(self, completion: Completion) -> Verdict:
        """Run the completion's prompt cold and compare. Raises `DecodeError`."""
        line, prompt = self._line, as_tokens(completion.token_ids)
        line.clear()
        for begin in range(0, prompt.size, line.n_batch):
            batch = prompt[begin : begin + line.n_batch]
            line.evaluate(batch, logits=begin + batch.size == prompt.size)
        error = None
        if completion.logits is not None:
            error = float(np.abs(self._context.logits() - completion.logits).max())
        # The token that ended the answer was sampled too.
        asked = len(completion.output_ids) + (completion.finish == "stop")
        cold = generate(line, completion.sampling, asked)
        pairs = zip(cold.ids, completion.output_ids, strict=False)
        difference = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
        if difference is None and len(cold.ids) != len(completion.output_ids):
            difference = min(len(cold.ids), len(completion.output_ids))
        return Verdict(
            identical=difference is None and cold.finish == completion.finish,
            first_difference=difference,
            logit_error=error,
            cold_output=self._context.model.text(cold.ids),
        )

    def close(self) -> None:
        """Free the second context. Closing twice is fine."""
        self._context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
