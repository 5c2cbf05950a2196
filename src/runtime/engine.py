"""The engine: renders a conversation, plans its evaluation, executes the plan and reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

import planner
import spanparse
from planner import Budget, Candidate, PolicyName
from planner.expectation.learning import identity_of
from runtime.checkpoint import fingerprint
from runtime.closing import Closing
from runtime.completion import Completion
from runtime.errors import DecodeError, RequestError
from runtime.job import Job
from runtime.llama import Context, ContextOptions, Model, Stretch
from runtime.logs import log_request
from runtime.memory import probe
from runtime.prefix import Tokens, as_tokens
from runtime.prompt import Prompt
from runtime.report import Clock, Phase
from runtime.requests import DEFAULT_MAX_TOKENS, Request
from runtime.sampling import GREEDY, Sampling
from runtime.sampling.answer import Answer, Generated
from runtime.sampling.sampler import Sampler
from runtime.tree import Tree
from spanparse.tokens import LlamaVocabulary, token_map
from spanparse.tokens.where import field_at

_DEFAULT_CHECKPOINTS = 8

_MOST_SEQUENCES = 256  # LLAMA_MAX_SEQ
_BRANCHES = 16
"""Other conversations that a memory keeps where only the bytes of checkpoints are limited."""

_NO_ROOM = 1
"""What `llama_decode` returns when it finds no cells."""


def _known_policy(name: str) -> PolicyName:
    for policy in planner.POLICIES:
        if policy == name:
            return policy
    raise RequestError("policy", f"{name!r} is none of {', '.join(planner.POLICIES)}")


def _sequences(model: Model, n_ctx: int, checkpoints: int | None, parallel: int) -> int:
    """Sequences enough for what may be kept: a branch for each state, for each request in evaluation, and the tip.

    A dense memory sets nothing aside for a sequence, and keeps as many branches as there is room for.
    """
    states = _BRANCHES if checkpoints is None else checkpoints
    if model.is_recurrent:
        # Recurrent states are whole: none needs a branch.
        states = 0
    elif not model.is_hybrid and not 0 < model.n_swa < n_ctx:
        states = _MOST_SEQUENCES
    return min(_MOST_SEQUENCES, parallel + states + 1)


@final
class Engine(Closing):
    """One model with one line of conversation in its memory and checkpoints of that line.

    `model` is the path of a GGUF file. `template` defaults to the one in it. `checkpoints` and `checkpoint_bytes` are
    budgets that hold at every moment; with neither, eight checkpoints. `policy` is one of `planner.POLICIES`. The
    other options are those of `ContextOptions`. `trust_content` lets text that came from a message hold control tokens.

    Raises `ModelError`, `RequestError` for an unknown policy, and `spanparse.SourceError` without a template. An error
    of a request leaves the engine usable.
    Not for use by several threads at once.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        template: spanparse.TemplateSource | None = None,
        policy: str = "adaptive",
        checkpoints: int | None = None,
        checkpoint_bytes: int | None = None,
        n_ctx: int = ContextOptions.n_ctx,
        n_batch: int = ContextOptions.n_batch,
        n_ubatch: int = ContextOptions.n_ubatch,
        n_threads: int | None = None,
        n_seq_max: int | None = None,
        parallel: int = 1,
        exact: bool = False,
        trust_content: bool = False,
    ) -> None:
        if checkpoints is None and checkpoint_bytes is None:
            checkpoints = _DEFAULT_CHECKPOINTS
        self.policy = _known_policy(policy)
        self.model = Model(model)
        try:
            sequences = n_seq_max or _sequences(self.model, n_ctx, checkpoints, parallel)
            self.options = ContextOptions(n_ctx, n_batch, n_ubatch, n_threads, exact, sequences)
            self._context = Context(self.model, self.options)
        except BaseException:
            self.model.close()
            raise
        try:
            self.template = template or spanparse.load_source(self.model.path)
            self.memory = probe(self._context)
            identity = fingerprint(self.model.path, self.options)
            budget = Budget(checkpoints, checkpoint_bytes)
            self.tree = Tree(self._context, self.memory, identity, policy=self.policy, budget=budget)
            self._vocabulary = LlamaVocabulary(self.model.pointer)
        except BaseException:
            self.close()
            raise
        self._trust_content = trust_content

    def generate(self, request: Request, *, logits: bool = False) -> Completion:
        """Answer a chat request. With `logits` the completion keeps those after the prompt.

        Raises `spanparse.TemplateError` if the template refuses the conversation, and what `run_tokens` raises.
        """
        # The vocabulary reads the model's memory, so a closed engine must stop here.
        clock, _ = Clock(), self.model.pointer
        with clock.phase("render"):
            rendering = spanparse.parse(self.template, request.messages, tools=request.tools, kwargs=request.kwargs)
        with clock.phase("tokenize"):
            tokens = token_map(
                rendering, self._vocabulary, template=self.template.text, trust_content=self._trust_content
            )
        if tokens.has_media:
            raise RequestError("messages", "hold media, and this engine evaluates text only")
        prompt = Prompt(
            as_tokens(tokens.ids),
            # Nobody having said that a barrier moves, it is taken to stay.
            tuple(Candidate(b.token, b.kind, b.stable is not False, b.message) for b in tokens.places),
            identity_of(request.tools),
            lambda token: field_at(rendering, tokens, token),
        )
        return self._run(prompt, request, clock, logits)

    def run_tokens(
        self,
        tokens: Sequence[int] | Tokens,
        candidates: Sequence[Candidate] = (),
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        sampling: Sampling = GREEDY,
        cancel_after_tokens: int | None = None,
        logits: bool = False,
    ) -> Completion:
        """Answer a prompt of token ids, with `candidates` for checkpoints in it.

        Raises `planner.PlanRequestError` for candidates outside the prompt, `RequestError` for no ids and for ids that
        the vocabulary does not have, `ContextFull`, and `DecodeError`; after the last one the memory holds the longest
        part of the prompt whose state is known.
        """
        request = Request([], max_tokens=max_tokens, sampling=sampling, cancel_after_tokens=cancel_after_tokens)
        return self._run(Prompt(as_tokens(tokens), tuple(candidates)), request, Clock(), logits)

    def reset(self) -> None:
        """Forget all conversations, their checkpoints, all earlier prompts and what was learned from them."""
        self.tree.reset()

    def close(self) -> None:
        """Free context and model. Closing twice is fine."""
        self._context.close()
        self.model.close()

    def _run(self, prompt: Prompt, request: Request, clock: Clock, keep_logits: bool) -> Completion:
        self._check(prompt.tokens)
        request.sampling.check(self.model.n_vocab)
        job = self.tree.begin(prompt, max_tokens=request.max_tokens, clock=clock)
        assert job is not None, "a single request finds room or is refused"
        logits: npt.NDArray[np.float32] | None = None
        answer = Generated((), "cancelled")
        try:
            if self._prefill(job, request.cancel_after_tokens):
                logits = self._context.logits() if keep_logits else None
                answer = self._answer(job, request)
        finally:
            report = job.finish(cancelled=answer.finish == "cancelled")
        completion = Completion(
            report=report,
            output=answer.text,
            finish=answer.finish,
            token_ids=tuple(prompt.tokens.tolist()),
            output_ids=answer.ids,
            sampling=request.sampling,
            logprobs=answer.logprobs,
            logits=logits,
        )
        log_request(completion, request.id)
        return completion

    def _check(self, prompt: Tokens) -> None:
        if not prompt.size:
            raise RequestError("messages", "the prompt has no tokens")
        if prompt.min() < 0 or prompt.max() >= self.model.n_vocab:
            raise RequestError("tokens", f"ids must be from 0 to {self.model.n_vocab - 1}")

    def _prefill(self, job: Job, cancel_after: int | None) -> bool:
        """Evaluate the prompt, or stop once `cancel_after` tokens were evaluated; whether all of it was.

        It stops between decodes of a single micro-batch only: llama.cpp leaves a recurrent memory ahead of its tokens
        when a decode is aborted halfway.
        """
        limit = self.tree.n_batch if cancel_after is None else self._context.n_ubatch
        while (stretch := job.next_stretch(limit)) is not None:
            self._evaluate(job, stretch, "prefill")
            if cancel_after is not None and job.prompt_evaluated >= cancel_after and job.in_prompt:
                return False
        return True

    def _answer(self, job: Job, request: Request) -> Generated:
        answer = Answer(self.model, request.sampling, request.max_tokens)
        with Sampler(self.model, request.sampling) as sampler:
            if request.sampling.penalises:
                sampler.remember(job.known[-request.sampling.repeat_last_n :].tolist())
            while answer.finish is None:
                with job.clock.phase("decode"):
                    token, logprob = sampler.sample(self._context)
                    answer.add(token, logprob)
                if answer.finish is None and job.full:
                    answer.end("length")
                if answer.finish is None:
                    job.generated(token)
                    while (stretch := job.next_stretch(1)) is not None:
                        self._evaluate(job, stretch, "decode")
        return answer.result()

    def _evaluate(self, job: Job, stretch: Stretch, phase: Phase) -> None:
        try:
            with job.clock.phase(phase):
                self._decode(stretch)
                # So that the next phase does not wait for this one.
                self._context.synchronize()
            job.evaluated(stretch)
        except BaseException:
            job.abandon()
            raise

    def _decode(self, stretch: Stretch) -> None:
        try:
            self._context.decode(stretch)
        except DecodeError as error:
            # The books of cells were wrong, or llama.cpp needs more than they know: make all the room there is.
            if error.code != _NO_ROOM or not self.tree.relieve():
                raise
            self._context.decode(stretch)
