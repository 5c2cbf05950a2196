"""A chat with its history."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, final

from runtime.completion import Completion
from runtime.errors import RequestError
from runtime.requests import Request
from runtime.sampling import GREEDY, Sampling
from runtime.stream import AsyncStream, Stream

if TYPE_CHECKING:
    from runtime.engine import Engine

Message = dict[str, Any]
DEFAULT_ANSWER_TOKENS = 1024


@final
@dataclass
class Session:
    """One conversation on an engine, which may serve others at the same time.

    `messages` are those so far, answers included. `tools` and `kwargs` go to the template, `max_tokens` and `sampling`
    hold for the answers to come. All of them may be replaced between two turns. A turn that fails or is cancelled
    leaves no trace; with `keep_partial` what a cancelled one has said so far stays.

    Every turn can be read as a whole (`say`, `send`), as a stream, or from a coroutine. A streamed turn becomes history
    once its stream has been read to the end. Each raises what `Engine.generate` raises, and `RequestError` if the
    history was changed while the answer was generated: one turn at a time, other branches on copies.
    """

    engine: Engine
    messages: tuple[Message, ...] = ()
    tools: list[dict[str, Any]] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = DEFAULT_ANSWER_TOKENS
    sampling: Sampling = GREEDY
    keep_partial: bool = False

    def say(self, text: str) -> Completion:
        """The answer to what a user says."""
        return self.send(_user(text))

    def send(self, *messages: Message) -> Completion:
        """The answer to some messages, such as the results of tools."""
        return self._whole((*self.messages, *messages))

    async def asay(self, text: str) -> Completion:
        """As `say`; cancelling the task cancels the turn."""
        return await self.asend(_user(text))

    async def asend(self, *messages: Message) -> Completion:
        """As `send`; cancelling the task cancels the turn."""
        turn = _Turn(self, (*self.messages, *messages))
        return turn.keep(await self.engine.agenerate(turn.request))

    def stream(self, *messages: Message) -> Stream:
        """The answer to some messages as it grows."""
        return self.stream_from((*self.messages, *messages))

    def astream(self, *messages: Message) -> AsyncStream:
        """As `stream`, for a coroutine."""
        turn = _Turn(self, (*self.messages, *messages))
        return self.engine.astream(turn.request, on_end=turn.keep)

    def stream_from(self, messages: Sequence[Message]) -> Stream:
        """The answer to another history, which takes the place of this one."""
        turn = _Turn(self, messages)
        return self.engine.stream(turn.request, on_end=turn.keep)

    def regenerate(self) -> Completion:
        """Another answer in place of the last one. Greedily it is the same: change `sampling` before.

        Raises `RequestError` if there is none.
        """
        return self._whole(self.before_answer())

    def edit(self, index: int, content: str) -> Completion:
        """The answer when message `index` says something else, and nothing has come after it.

        Raises `RequestError` if there is no such message.
        """
        if not 0 <= index < len(self.messages):
            raise RequestError("messages", f"there is no message {index}, only {len(self.messages)}")
        return self._whole((*self.messages[:index], {**self.messages[index], "content": content}))

    def before_answer(self) -> tuple[Message, ...]:
        """The messages that the last answer is to. Raises `RequestError` if there is none."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            raise RequestError("messages", "there is no answer yet")
        return self.messages[:-1]

    def undo(self) -> None:
        """Take back what the user said last, and all that came after. Raises `RequestError` if there is nothing."""
        said = [index for index, message in enumerate(self.messages) if message["role"] == "user"]
        if not said:
            raise RequestError("messages", "the user has not said anything yet")
        self.messages = self.messages[: said[-1]]

    def copy(self) -> Self:
        """A branch: a session that goes its own way from here, and shares with this one what is in the memory."""
        return copy.copy(self)

    def _whole(self, messages: tuple[Message, ...]) -> Completion:
        turn = _Turn(self, messages)
        return turn.keep(self.engine.generate(turn.request))


@final
class _Turn:
    """One request of a session: the history becomes `messages` and the answer, if nothing else happened to it."""

    def __init__(self, session: Session, messages: Sequence[Message]) -> None:
        self._session = session
        self._before = session.messages
        self._messages = tuple(messages)
        self.request = Request(
            messages=list(messages),
            tools=session.tools,
            kwargs=dict(session.kwargs),
            max_tokens=session.max_tokens,
            sampling=session.sampling,
        )

    def keep(self, completion: Completion) -> Completion:
        """The answer is complete, or cancelled."""
        session = self._session
        if completion.finish == "cancelled" and not (session.keep_partial and completion.output):
            return completion
        if session.messages is not self._before:
            raise RequestError("messages", "the conversation was changed while this answer was generated")
        session.messages = (*self._messages, {"role": "assistant", "content": completion.output})
        return completion


def _user(text: str) -> Message:
    return {"role": "user", "content": text}
