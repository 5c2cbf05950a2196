"""From what `spanparse simulate` is given to sessions of prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spanparse.conversation import Conversation, load_conversation
from spanparse.errors import ConversationError, SourceError, SpanparseError
from spanparse.parse import parse_request, request_of
from spanparse.prediction import Forecast

if TYPE_CHECKING:
    from planner import Candidate, Likely
    from planner.simulation import Session
    from spanparse.sources import TemplateSource
    from spanparse.tokens import Backend

_REQUEST_FIELDS: Final = frozenset({"max_tokens", "temperature", "cancel_after_tokens"})
"""What a line of `spanparse run --requests` may have and a dialogue has not."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The conversations that one client sent, in order."""

    name: str
    requests: Sequence[Conversation]


def is_block_trace(first: bytes) -> bool:
    """Whether a trace that begins with these bytes knows prompts by their blocks."""
    if first.startswith(b"\x1f\x8b"):
        return True
    try:
        line = json.loads(first.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(line, dict) and "reqs" in line


def read_dialogues(data: bytes, name: str, *, requests: bool) -> list[Dialogue]:
    """One dialogue a line, with a request for each assistant message; or all lines the requests of one client.

    Lines with fields that only requests have are requests. Raises `ConversationError` naming line and field.
    """
    lines = [(number, text) for number, text in enumerate(data.splitlines(), 1) if text.strip()]
    bodies = [_body(text, f"{name}:{number}") for number, text in lines]
    if not bodies:
        raise ConversationError(name, "holds no conversations")
    together = requests or any(_REQUEST_FIELDS & body.keys() for body in bodies)
    loaded = [_load(body, f"{name}:{number}") for (number, _), body in zip(lines, bodies, strict=True)]
    if together:
        return [Dialogue(name, loaded)]
    return [
        Dialogue(str(body.get("id") or number), list(_requests(conversation)))
        for (number, _), body, conversation in zip(lines, bodies, loaded, strict=True)
    ]


def _body(text: bytes, where: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConversationError(where, f"not valid JSON ({error})") from error
    if not isinstance(body, dict):
        raise ConversationError(where, "should be an object with messages")
    return body


def _load(body: dict[str, Any], where: str) -> Conversation:
    try:
        return load_conversation(body)
    except ConversationError as error:
        raise ConversationError(f"{where}, {error.where}", error.reason) from error


def _requests(dialogue: Conversation) -> Iterator[Conversation]:
    """What a client sent to get each assistant message."""
    for index, message in enumerate(dialogue.messages):
        if message["role"] == "assistant" and index:
            yield Conversation(dialogue.messages[:index], dialogue.tools, dialogue.kwargs)


def sessions_of(
    dialogues: Sequence[Dialogue],
    template: TemplateSource,
    backend: Backend,
    advance: Callable[[str], None],
    *,
    forecast: bool = False,
) -> list[Session]:
    """The dialogues as token ids, as a server with this template and tokenizer would evaluate them.

    `forecast`: one that plans with what the template will rewrite, which the engine does not. `advance` is told before
    each request is rendered whose it is. Raises `SpanparseError` naming the dialogue.
    """
    from planner.learning import identity_of
    from planner.simulation import token_session

    sessions = []
    for dialogue in dialogues:
        renderer = _Renderer(template, backend, forecast)
        prompts: list[_Rendered] = []
        for number, conversation in enumerate(dialogue.requests, 1):
            advance(dialogue.name)
            try:
                prompts.append(renderer.prompt(conversation))
            except SourceError:
                raise
            except SpanparseError as error:
                raise SpanparseError(f"{dialogue.name}, request {number}: {error}") from error
        tools = [identity_of(request.tools) for request in dialogue.requests]
        places = [(prompt.ids, prompt.candidates) for prompt in prompts]
        sessions.append(token_session(dialogue.name, places, tools, [prompt.likely for prompt in prompts]))
    return sessions


class _Rendered(NamedTuple):
    """What the runtime evaluates for a request, where it may keep states, and where the next is expected to part."""

    ids: Sequence[int]
    candidates: tuple[Candidate, ...]
    likely: tuple[Likely, ...]


class _Renderer:
    def __init__(self, template: TemplateSource, backend: Backend, forecast: bool) -> None:
        self._template, self._backend = template, backend
        self._forecast = Forecast(template, backend) if forecast else None

    def prompt(self, conversation: Conversation) -> _Rendered:
        from planner import Candidate, Likely
        from spanparse.tokens import token_map

        template = self._template
        request = request_of(template, conversation.messages, tools=conversation.tools, kwargs=conversation.kwargs)
        rendering = parse_request(template, request)
        tokens = token_map(rendering, self._backend, template=template.text)
        if tokens.has_media:
            raise ConversationError("messages", "hold media, whose length is unknown")
        # Nobody having said that a barrier moves, it is taken to stay.
        places = tuple(Candidate(b.token, b.kind, b.stable is not False, b.message) for b in tokens.places)
        expected = () if self._forecast is None else self._forecast.likely(rendering, request, tokens)
        return _Rendered(tokens.ids, places, tuple(Likely(offset, weight) for offset, weight in expected))
