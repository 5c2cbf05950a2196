"""The engine: renders conversations, and has them answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, final

import planner
import spanparse
from planner import Budget, Candidate, PolicyName
from planner.learning import identity_of
from runtime.attachment import MediaReader, media_chunks
from runtime.closing import Closing
from runtime.completion import Completion
from runtime.errors import RequestError
from runtime.gate import Gate
from runtime.llama import Context, ContextOptions, Model
from runtime.media import Projector
from runtime.memory import probe
from runtime.observer import Observer
from runtime.prefix import Tokens, as_tokens
from runtime.prompt import Prompt
from runtime.renders import Rendered, Renders, digests
from runtime.report import Clock
from runtime.requests import DEFAULT_MAX_TOKENS, Request
from runtime.sampling import GREEDY, Sampling
from runtime.scheduler import Call, Outbox, Scheduler
from runtime.store import StoreOptions, StoreStatus
from runtime.stream import AsyncStream, Stream
from runtime.tree.archive import Archive
from runtime.tree.checkpoint import fingerprint
from runtime.tree.tree import Tree
from spanparse.media import insert_expansions
from spanparse.tokens import LlamaVocabulary, token_map
from spanparse.tokens.drift import field_at

if TYPE_CHECKING:
    from runtime.metrics import Metrics

_DEFAULT_CHECKPOINTS = 8

_MOST_SEQUENCES = 64
"""However many branches there may be: llama.cpp sets a row of logits aside for each sequence."""
_BRANCHES = 16
"""Most branches that a sequence is set aside for where that takes memory, beside those in evaluation and the tip."""
_WINDOWS = 4
"""The same where a window slides: attention looks at the cells of all windows, whosever they are."""


def _known_policy(name: str) -> PolicyName:
    for policy in planner.POLICIES:
        if policy == name:
            return policy
    raise RequestError("policy", f"{name!r} is none of {', '.join(planner.POLICIES)}")


def _sequences(model: Model, n_ctx: int, checkpoints: int | None, parallel: int) -> int:
    """Sequences for the branches that states need, for each request in evaluation, and for the tip.

    A dense memory sets nothing aside for a sequence, and keeps as many branches as there is room for. States of one
    conversation need one branch together.
    """
    if model.is_recurrent:
        # Recurrent states are whole: none needs a branch.
        branches = 0
    elif 0 < model.n_swa < n_ctx:
        branches = _WINDOWS
    else:
        branches = _BRANCHES if model.is_hybrid else _MOST_SEQUENCES
    if checkpoints is not None and branches < _MOST_SEQUENCES:
        branches = min(branches, checkpoints)
    return min(_MOST_SEQUENCES, parallel + branches + 1)


@final
class Engine(Closing):
    """One model, and the conversations that its memory holds.

    `model` is the path of a GGUF file. `template` defaults to the one in it. `projector` is the path of an mmproj file,
    for images and recordings. `checkpoints` and `checkpoint_bytes` are budgets that hold at every moment; with neither,
    eight checkpoints. `policy` is one of `planner.POLICIES`. Up to `parallel` requests are evaluated at once, in
    batches that they share; more wait. `store`: where the ends of prompts are kept beside the memory, on top of the
    budgets of checkpoints. `metrics` count what happens. The other options are those of `ContextOptions`.
    `trust_content` lets text that came from a message hold control tokens.

    Raises `ModelError`, `RequestError` for an unknown policy, `spanparse.SourceError` without a template, and what
    `StoreOptions.open` raises. An error
    of a request leaves the engine usable, and the other requests alone. All methods may be called from any thread;
    once the engine is closed they raise `EngineClosed`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        template: spanparse.TemplateSource | None = None,
        projector: str | os.PathLike[str] | None = None,
        policy: str = "adaptive",
        checkpoints: int | None = None,
        checkpoint_bytes: int | None = None,
        store: StoreOptions | None = None,
        metrics: Metrics | None = None,
        n_ctx: int = ContextOptions.n_ctx,
        n_batch: int = ContextOptions.n_batch,
        n_ubatch: int = ContextOptions.n_ubatch,
        n_threads: int | None = None,
        n_seq_max: int | None = None,
        parallel: int = 4,
        exact: bool = False,
        trust_content: bool = False,
    ) -> None:
        if checkpoints is None and checkpoint_bytes is None:
            checkpoints = _DEFAULT_CHECKPOINTS
        for name, value, least in (
            ("parallel", parallel, 1),
            ("checkpoints", checkpoints, 0),
            ("checkpoint_bytes", checkpoint_bytes, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        self.policy = _known_policy(policy)
        self._observer = Observer(metrics)
        with ExitStack() as opened:
            self.model = opened.enter_context(Model(model))
            sequences = n_seq_max or _sequences(self.model, n_ctx, checkpoints, parallel + (store is not None))
            self.options = ContextOptions(n_ctx, n_batch, n_ubatch, n_threads, exact, sequences)
            context = opened.enter_context(Context(self.model, self.options))
            self.projector: Projector | None = None
            if projector is not None:
                self.projector = opened.enter_context(Projector(projector, self.model, n_threads=n_threads))
            self.template = template or spanparse.load_source(self.model.path)
            self.memory = probe(context)
            identity = fingerprint(self.model.path, self.options)
            budget = Budget(checkpoints, checkpoint_bytes)
            archive = None
            if store is not None:
                opened_store = store.open(self.model.path, n_ctx=context.n_ctx, exact=exact)
                archive = Archive(opened.enter_context(opened_store), self.projector)
            self.tree = Tree(context, self.memory, identity, policy=self.policy, budget=budget, archive=archive)
            self._vocabulary = LlamaVocabulary(self.model.pointer)
            self._media = MediaReader(self.projector, context.n_ubatch)
            self._renders = Renders(context.n_ctx)
            self.scheduler = opened.enter_context(Scheduler(self.tree, parallel=parallel, observer=self._observer))
            self._opened = opened.pop_all()
        self._gate = Gate()
        self._trust_content = trust_content

    def generate(self, request: Request, *, logits: bool = False) -> Completion:
        """Answer a chat request. With `logits` the completion keeps those after the prompt.

        Raises `spanparse.TemplateError` if the template refuses the conversation, `spanparse.ConversationError` for
        media that cannot be read, and what `run_tokens` raises. Where the wait is interrupted the request is cancelled.
        """
        prompt, clock = self._prompt(request)
        return self._wait(self._ask(Call(prompt, request, clock, keep_logits=logits)))

    async def agenerate(self, request: Request, *, logits: bool = False) -> Completion:
        """As `generate`; cancelling the task cancels the request."""
        prompt, clock = await asyncio.to_thread(self._prompt, request)
        call = self._ask(Call(prompt, request, clock, keep_logits=logits, interruptible=True))
        try:
            return await asyncio.wrap_future(call.future)
        except asyncio.CancelledError:
            call.cancel()
            raise

    def stream(self, request: Request, *, on_end: Callable[[Completion], object] | None = None) -> Stream:
        """The text of the answer to a chat request while it grows.

        `on_end` is given the completion when the reader comes to the end. Raises what `generate` raises; what goes
        wrong later is raised to the reader.
        """
        prompt, clock = self._prompt(request)
        return Stream(lambda outbox: self._ask(Call(prompt, request, clock, outbox=outbox, interruptible=True)), on_end)

    def astream(self, request: Request, *, on_end: Callable[[Completion], object] | None = None) -> AsyncStream:
        """As `stream`, for a coroutine; the request begins when the stream is first read."""

        async def start(outbox: Outbox) -> Call:
            prompt, clock = await asyncio.to_thread(self._prompt, request)
            return self._ask(Call(prompt, request, clock, outbox=outbox, interruptible=True))

        return AsyncStream(start, on_end)

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
        with self._watched(request):
            request.check(self.model.n_vocab)
        prompt = Prompt(as_tokens(tokens), tuple(candidates))
        if prompt.tokens.ndim != 1:
            raise RequestError("tokens", "must be a list of ids")
        if not all(isinstance(candidate, Candidate) for candidate in prompt.candidates):
            raise RequestError("candidates", "must be planner.Candidate")
        if prompt.tokens.size and not 0 <= prompt.tokens.min() <= prompt.tokens.max() < self.model.n_vocab:
            raise RequestError("tokens", f"ids must be from 0 to {self.model.n_vocab - 1}")
        return self._wait(self._ask(Call(prompt, request, Clock(), keep_logits=logits)))

    def store_status(self) -> StoreStatus | None:
        """How the tiers of the store are doing; None without one."""
        archive = self.tree.archive
        return None if archive is None else self.scheduler.run(archive.store.status)

    def reset(self) -> None:
        """Forget all conversations, their checkpoints, all earlier prompts and what was learned from them.

        What is stored stays.

        Waits until what was asked before has been answered.
        """
        self.scheduler.run(self.tree.reset, idle=True)

    def check_integrity(self) -> None:
        """Raise AssertionError unless all that is kept agrees with the memory; while requests are evaluated, too."""
        self.scheduler.run(self.tree.check_integrity)

    def close(self) -> None:
        """End all requests with `EngineClosed`, and free the memory. Closing twice is fine."""
        self._gate.shut()
        self._opened.close()

    def _prompt(self, request: Request) -> tuple[Prompt, Clock]:
        clock = Clock()
        # The vocabulary reads the model's memory.
        with self._watched(request), self._gate.inside():
            request.check(self.model.n_vocab)
            tools = identity_of(request.tools)
            setting, messages = (tools, repr(sorted(request.kwargs.items()))), digests(request.messages)
            with self._renders.nearest(setting, messages) as before:
                with clock.phase("render"):
                    attachments = self._media.read(request.messages)
                    rendering = spanparse.parse(
                        self.template,
                        request.messages,
                        tools=request.tools,
                        kwargs=request.kwargs,
                    )
                with clock.phase("tokenize"):
                    filled = insert_expansions(rendering, {at: media.expansion for at, media in attachments.items()})
                    tokens = token_map(
                        rendering,
                        self._vocabulary,
                        template=self.template.text,
                        trust_content=self._trust_content,
                        media=filled,
                        previous=None if before is None or filled or before.tokens.has_media else before.tokens,
                    )
            self._renders.put(Rendered(setting, messages, tokens))
            media = media_chunks(tokens, filled, attachments, self.tree.context.n_ctx)
            # Nobody having said that a barrier moves, it is taken to stay.
            places = [Candidate(b.token, b.kind, b.stable is not False, b.message) for b in tokens.places]
            # An image in several pieces ends with the last of them.
            ends = {chunk.attachment: chunk.end for chunk in media}.values()
            ids = as_tokens(tokens.ids)
        where = partial(field_at, rendering, tokens)
        candidates = (*places, *(Candidate(end, "media_end", stable=True) for end in ends))
        return Prompt(ids, candidates, tools, where, media), clock

    @contextmanager
    def _watched(self, request: Request) -> Iterator[None]:
        """What goes wrong before the scheduler has a request is told as what goes wrong there."""
        try:
            yield
        except Exception as error:
            self._observer.failed(error, request.id)
            raise

    def _ask(self, call: Call) -> Call:
        with self._watched(call.request):
            if not call.prompt.tokens.size:
                raise RequestError("messages", "the prompt has no tokens")
            self.scheduler.submit(call)
        return call

    def _wait(self, call: Call) -> Completion:
        try:
            return call.future.result()
        except BaseException:
            call.cancel()
            raise
