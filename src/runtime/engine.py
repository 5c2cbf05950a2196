"""The engine: renders a conversation, plans its evaluation, executes the plan and reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

import planner
import spanparse
from planner import Budget, Candidate, Existing, Plan, PlanRequest, PolicyName
from planner.expectation.learning import Divergence, Planner, identity_of
from runtime.checkpoint import CheckpointStore, fingerprint
from runtime.closing import Closing
from runtime.errors import ContextFull, DecodeError, RequestError, RunError, StateError
from runtime.executor import Executor
from runtime.history import PromptHistory
from runtime.line import Line
from runtime.llama import Context, ContextOptions, Model
from runtime.logs import log_request
from runtime.memory import probe
from runtime.prefix import Tokens, as_tokens
from runtime.report import Clock, Report, Restored, Reuse
from runtime.requests import DEFAULT_MAX_TOKENS, Request
from runtime.sampling import GREEDY, Finish, Generated, Logprob, Sampling, generate
from spanparse.tokens import LlamaVocabulary, token_map
from spanparse.tokens.where import field_at

_DEFAULT_CHECKPOINTS = 8


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer and what it cost.

    `output` spells control tokens out, and ends before a stop text. `token_ids` are the prompt's, `output_ids` the
    answer's without the token that ended it. `logprobs` are the answer's, empty unless asked for. `logits`, of shape
    (n_vocab,), follow the prompt; None unless asked for, or if it was cancelled.
    """

    report: Report
    output: str
    finish: Finish
    token_ids: tuple[int, ...] = field(repr=False)
    output_ids: tuple[int, ...] = field(repr=False)
    sampling: Sampling
    logprobs: tuple[Logprob, ...] = field(repr=False, default=())
    logits: npt.NDArray[np.float32] | None = field(repr=False, default=None)


def _restored(plan: Plan) -> Restored | None:
    if plan.restore is None or not plan.restore.offset:
        return None
    return Restored(plan.restore.offset, "ram" if plan.restore.source == "checkpoint" else "live")


def _known_policy(name: str) -> PolicyName:
    for policy in planner.POLICIES:
        if policy == name:
            return policy
    raise RequestError("policy", f"{name!r} is none of {', '.join(planner.POLICIES)}")


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
        exact: bool = False,
        trust_content: bool = False,
    ) -> None:
        if checkpoints is None and checkpoint_bytes is None:
            checkpoints = _DEFAULT_CHECKPOINTS
        self.policy = _known_policy(policy)
        self.options = ContextOptions(n_ctx, n_batch, n_ubatch, n_threads, exact)
        self.store = CheckpointStore(checkpoints=checkpoints, bytes=checkpoint_bytes)
        self.model = Model(model)
        try:
            self._context = Context(self.model, self.options)
        except RunError:
            self.model.close()
            raise
        try:
            self.template = template or spanparse.load_source(self.model.path)
            self.memory = probe(self._context)
            self.line = Line(self._context, self.memory, fingerprint(self.model.path, self.options))
            self._executor = Executor(self.line, self.store)
            self._vocabulary = LlamaVocabulary(self.model.pointer)
        except BaseException:
            self.close()
            raise
        self._trust_content = trust_content
        self._history = PromptHistory()
        self._planner = Planner()
        self._serial = 0

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
        return self._run(
            as_tokens(tokens.ids),
            # Nobody having said that a barrier moves, it is taken to stay.
            tuple(Candidate(b.token, b.kind, b.stable is not False, b.message) for b in tokens.places),
            request,
            clock,
            logits,
            lambda token: field_at(rendering, tokens, token),
        )

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
        the vocabulary does not have, `ContextFull`, and `DecodeError`; after the last one the line holds the longest
        part of the conversation whose state is known.
        """
        request = Request([], max_tokens=max_tokens, sampling=sampling, cancel_after_tokens=cancel_after_tokens)
        return self._run(as_tokens(tokens), candidates, request, Clock(), logits, lambda token: None)

    def reset(self) -> None:
        """Forget the conversation, its checkpoints, all earlier prompts and what was learned from them."""
        self.line.clear()
        self.store.leave_line(0)
        self._history = PromptHistory()
        self._planner = Planner()

    def close(self) -> None:
        """Free context and model. Closing twice is fine."""
        self._context.close()
        self.model.close()

    def _run(
        self,
        prompt: Tokens,
        candidates: Sequence[Candidate],
        request: Request,
        clock: Clock,
        keep_logits: bool,
        where: Callable[[int], str | None],
    ) -> Completion:
        self._check(prompt)
        request.sampling.check(self.model.n_vocab)
        self._serial += 1
        if not self.line.settled:
            self._executor.recover()
        shared = self._history.shared(prompt)
        common, held = self.line.common(prompt), self.line.length
        self.store.leave_line(common)
        lost = dict(self.store.lost)
        if common < held:
            system = max((c.offset for c in candidates if c.kind == "system_end"), default=0)
            self._planner.observe(Divergence(common, held, tools=identity_of(request.tools), system=system))
        plan = self._start(prompt, candidates, common, identity_of(request.tools), clock)
        start = self.line.length
        reuse = Reuse(prompt.size, shared, common, held, start, lost)
        logits = None
        answer = Generated((), "cancelled")
        try:
            prefill = self._executor.prefill(prompt, plan, request.cancel_after_tokens, self._serial, clock)
            if not prefill.cancelled:
                logits = self._context.logits() if keep_logits else None
                with clock.phase("decode"):
                    answer = generate(self.line, request.sampling, request.max_tokens)
        except DecodeError:
            self._executor.recover()
            raise
        finally:
            self._history.add(prompt, min(self.line.length, prompt.size))
            # A checkpoint that was kept for tokens this request meant to evaluate again, but did not.
            self.store.leave_line(self.line.length)
        report = Report(
            prompt_tokens=prompt.size,
            restored=_restored(plan),
            evaluated=prefill.evaluated,
            reused=start,
            ideal=reuse.ideal,
            excess=reuse.explain(prefill.evaluated, where(common)),
            breaks=prefill.breaks,
            saves=prefill.saves,
            bytes=self.store.bytes,
            seconds=clock.seconds(),
        )
        completion = Completion(
            report=report,
            output=answer.text,
            finish=answer.finish,
            token_ids=tuple(prompt.tolist()),
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
        if prompt.size > self._context.n_ctx:
            raise ContextFull(prompt.size, self._context.n_ctx)
        if prompt.min() < 0 or prompt.max() >= self.model.n_vocab:
            raise RequestError("tokens", f"ids must be from 0 to {self.model.n_vocab - 1}")

    def _start(
        self, prompt: Tokens, candidates: Sequence[Candidate], common: int, tools: str | None, clock: Clock
    ) -> Plan:
        """Plan, and put the line where the plan begins. A state that proves unusable is dropped and planned around."""
        while True:
            with clock.phase("plan"):
                plan = self._planner.plan(self._request(prompt, candidates, min(common, self.line.length)), tools=tools)
            with clock.phase("restore"):
                try:
                    self._executor.begin(plan)
                    return plan
                except StateError:
                    continue

    def _request(self, prompt: Tokens, candidates: Sequence[Candidate], common: int) -> PlanRequest:
        reusable = min(common, prompt.size - 1)
        return PlanRequest(
            prompt_tokens=prompt.size,
            candidates=tuple(candidates),
            common_prefix=common,
            live=reusable if self.line.can_cut(reusable) else None,
            existing=tuple(Existing(c.offset, c.size, self._serial - c.serial) for c in self.store),
            memory=self.memory.kind,
            window=self.memory.window or None,
            budget=Budget(self.store.checkpoints, self.store.bytes_limit),
            state_bytes=self.memory.state_bytes,
            n_batch=self.line.n_batch,
            n_ubatch=self._context.n_ubatch,
            policy=self.policy,
        )
