"""An answer read while it grows, from a thread or from a coroutine.

A stream that is closed, or that nobody holds any more, cancels its request. So does a reader that falls
`runtime.scheduler.call.MOST_UNREAD` stretches of text behind.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from threading import Event
from typing import Self, final

from runtime.closing import Closing
from runtime.completion import Completion
from runtime.scheduler import Call, Outbox

OnEnd = Callable[[Completion], object] | None


class _Reader:
    """The reader's end of an outbox: what both kinds of stream have in common."""

    def __init__(self, wake: Callable[[], object], on_end: OnEnd) -> None:
        self._outbox = Outbox(wake)
        self._on_end = on_end
        self._call: Call | None = None
        self._completion: Completion | None = None
        self._cancelled = False

    @property
    def completion(self) -> Completion:
        """The whole answer with its report. Raises RuntimeError while the end of the stream has not been read."""
        if self._completion is None:
            raise RuntimeError("the stream has not been read to its end")
        return self._completion

    def cancel(self) -> None:
        """End the answer where it is, within a micro-batch. What was generated can still be read."""
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()

    def _started(self, call: Call) -> None:
        self._call = call
        # The scheduler holds the call but not the stream, so this runs when the reader lets go of it.
        weakref.finalize(self, call.cancel).atexit = False
        if self._cancelled:
            call.cancel()

    def _is_ready(self) -> bool:
        """Whether there is text to take, or none will come."""
        return bool(self._outbox.pieces) or self._outbox.ended

    def _take(self) -> str | None:
        """The next stretch of text; None at the end. Raises what the request failed with."""
        if self._outbox.pieces:
            return self._outbox.pieces.popleft()
        if self._completion is None and self._call is not None:
            self._completion = self._call.future.result()
            if self._on_end is not None:
                self._on_end(self._completion)
        return None


@final
class Stream(_Reader, Closing):
    """The stretches of an answer's text, none of them empty, each as soon as it is certain.

    For one thread at a time. Iterating raises what the request fails with. `on_end` is given the completion when the
    reader comes to the end. Leaving a `with` block cancels the request if it is not done.
    """

    def __init__(self, start: Callable[[Outbox], Call], on_end: OnEnd = None) -> None:
        self._woken = Event()
        super().__init__(self._woken.set, on_end)
        self._started(start(self._outbox))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self._is_ready():
            self._woken.wait()
            self._woken.clear()
        text = self._take()
        if text is None:
            raise StopIteration
        return text

    def close(self) -> None:
        """Cancel the request if it is not done. Closing twice is fine."""
        self.cancel()


@final
class AsyncStream(_Reader):
    """As `Stream`, for one task at a time of the event loop in which it is made.

    The request begins when the stream is first read. Cancelling the task that reads cancels the request.
    """

    def __init__(self, start: Callable[[Outbox], Awaitable[Call]], on_end: OnEnd = None) -> None:
        self._start = start
        self._woken = asyncio.Event()
        super().__init__(_waker(asyncio.get_running_loop(), self._woken), on_end)

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        if self._call is None:
            self._started(await self._start(self._outbox))
        while not self._is_ready():
            try:
                await self._woken.wait()
            except asyncio.CancelledError:
                self.cancel()
                raise
            self._woken.clear()
        text = self._take()
        if text is None:
            raise StopAsyncIteration
        return text

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> Callable[[], None]:
    """Sets an event of a loop from another thread; holds nothing of the stream."""

    def wake() -> None:
        # A loop that has been closed has no readers.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(woken.set)

    return wake
