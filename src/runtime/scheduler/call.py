"""A request on its way through the scheduler, and the answer on its way back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Final, final

from runtime.completion import Completion
from runtime.prompt import Prompt
from runtime.report import Clock
from runtime.requests import Request

MOST_UNREAD: Final = 4096
"""Stretches of text, about a token each, that may wait for their reader. One that falls further behind has gone."""


@final
class Outbox:
    """Text on its way to one reader.

    The scheduler appends and the reader takes, without a lock: each end of a deque has one user. `wake` is called after
    every change, on the scheduler's thread, and must not block.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self.pieces: deque[str] = deque()
        self.ended = False
        self._wake = wake

    def put(self, text: str) -> None:
        """Give out some text."""
        self.pieces.append(text)
        self._wake()

    def end(self) -> None:
        """Nothing comes after this; the call's future is done."""
        self.ended = True
        self._wake()


@final
class Call:
    """One request, its rendered prompt, and the completion to come.

    `future` is done when the request has ended, with the completion or the error. `clock` has counted what it took to
    make the prompt. The evaluation of an `interruptible` one goes in steps of single micro-batches, so that it ends
    soon after `cancel`; others too end then, but perhaps one batch later.
    """

    def __init__(
        self,
        prompt: Prompt,
        request: Request,
        clock: Clock,
        *,
        keep_logits: bool = False,
        outbox: Outbox | None = None,
        interruptible: bool = False,
    ) -> None:
        self.prompt = prompt
        self.request = request
        self.clock = clock
        self.keep_logits = keep_logits
        self.interruptible = interruptible or not (request.cancel_after_tokens is None and request.timeout is None)
        self.future: Future[Completion] = Future()
        # From here on nobody but the scheduler ends it, not even an asyncio task that is cancelled.
        self.future.set_running_or_notify_cancel()
        self._outbox = outbox
        self._cancelled = False
        self._deadline = None if request.timeout is None else monotonic() + request.timeout

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        left = self.seconds_left
        return self._cancelled or (left is not None and left <= 0)

    @property
    def seconds_left(self) -> float | None:
        """Until the client gives up; None for never."""
        return None if self._deadline is None else self._deadline - monotonic()

    def cancel(self) -> None:
        """Nobody waits for the answer any more. Takes no lock: the garbage collector may call it anywhere."""
        self._cancelled = True

    def put(self, text: str) -> None:
        """Give out the next stretch of the answer, on the scheduler's thread."""
        if text and self._outbox is not None:
            self._outbox.put(text)
            if len(self._outbox.pieces) > MOST_UNREAD:
                self.cancel()

    def end(self, result: Completion | BaseException) -> None:
        """The request has ended; on the scheduler's thread, once."""
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)
        if self._outbox is not None:
            self._outbox.end()
