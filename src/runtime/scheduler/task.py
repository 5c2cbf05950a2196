"""A request in flight: its place in the memory, its sampler, and its answer so far."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from runtime.attachment import MediaStretch
from runtime.closing import Closing
from runtime.completion import Completion
from runtime.llama import Context, Stretch
from runtime.sampling import Answer, Sampler
from runtime.scheduler.call import Call
from runtime.tree.job import Job


@final
class Task(Closing):
    """Carries a call through prefill and decoding. Close it when it has ended.

    `served` counts prompt tokens, beginning at what is given: of two prompts the one served less is next. Of two
    streams it is the one with the smaller `last_served`. `alone` asks for decodes of its own, because one that was
    shared has failed, until it has caught up. Raises `RequestError` as `Sampler` does.
    """

    def __init__(self, call: Call, job: Job, context: Context, served: int) -> None:
        self.call = call
        self.job = job
        self.prefilled = False
        self.served = served
        self.last_served = 0
        self.alone = False
        sampling = call.request.sampling
        self._context = context
        self._answer = Answer(context.model, sampling, call.request.max_tokens)
        self._sampler = Sampler(context.model, sampling)
        self._logits: npt.NDArray[np.float32] | None = None

    @property
    def ended(self) -> bool:
        """Whether the answer is complete."""
        return self.prefilled and self._answer.finish is not None

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it, or it is to be cut off here; too late when it has ended."""
        after = self.call.request.cancel_after_tokens
        cut = not self.prefilled and after is not None and self.job.prompt_evaluated >= after
        return (cut or self.call.cancelled) and not self.ended

    @property
    def interruptible(self) -> bool:
        """Whether a turn that it takes part in must not last longer than a micro-batch."""
        return self.prefilled or self.alone or self.call.interruptible

    def evaluated(self, stretch: Stretch | MediaStretch) -> None:
        """The next stretch is in the memory: saves what the plan wants saved there."""
        self.alone = self.alone and not stretch.logits
        if not self.prefilled:
            self.served += stretch.tokens.size
        self.job.evaluated(stretch)

    def choose(self, row: int) -> None:
        """Take the token that follows `row` of the last decode. Raises `DeadEnd` and `GrammarTooCostly`."""
        logits, first = self._context.logits(row), not self.prefilled
        self.choose_by(logits)
        if first:
            # The token is on its way, and the branch is still where the prompt ends.
            self.job.prompt_ended(logits, moves_on=not self.ended)

    def choose_by(self, logits: npt.NDArray[np.float32]) -> None:
        """Take the next token by `logits`. Raises as `choose`."""
        if not self.prefilled:
            self._begin(logits)
        if self.ended:
            return
        with self.call.clock.phase("decode"):
            token, logprob = self._sampler.sample(logits)
        text = self._answer.add(token, logprob)
        if not self.ended:
            if self.job.full:
                text += self._answer.end("length")
            else:
                self.job.generated(token)
        self.call.put(text)

    def _begin(self, logits: npt.NDArray[np.float32]) -> None:
        self.prefilled = True
        sampling = self.call.request.sampling
        if self.call.keep_logits:
            self._logits = logits
        if sampling.penalises:
            tokens = self.call.prompt.tokens
            self._sampler.remember(tokens[tokens >= 0][-sampling.repeat_last_n :].tolist())

    def completion(self) -> Completion:
        """The end of the request, whether its answer is complete or cut off here."""
        cancelled = not self.ended
        report = self.job.finish(cancelled=cancelled)
        answer = self._answer.result()
        return Completion(
            report=report,
            output=answer.text,
            finish="cancelled" if cancelled else answer.finish,
            token_ids=tuple(self.call.prompt.tokens.tolist()),
            output_ids=answer.ids,
            sampling=self.call.request.sampling,
            logprobs=answer.logprobs,
            logits=self._logits,
            media=self.call.prompt.media if self.call.keep_logits else (),
        )

    def close(self) -> None:
        """Free the sampler, and what was made ready of media. Closing twice is fine."""
        self._sampler.close()
        for chunk in self.call.prompt.media:
            chunk.attachment.close()
