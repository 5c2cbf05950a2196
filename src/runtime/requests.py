"""Chat requests, and the JSONL file they are played from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.errors import RequestError
from runtime.sampling import GREEDY, Sampling
from spanparse.conversation import load_conversation
from spanparse.errors import ConversationError

DEFAULT_MAX_TOKENS = 16
_MAX_FILE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Request:
    """One chat request: a conversation, how to continue it, and when to stop.

    `kwargs` go to the template. `max_tokens` may be 0, which only evaluates the prompt. `cancel_after_tokens` stops the
    evaluation of the prompt once that many tokens were evaluated, as a client that hangs up would.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    sampling: Sampling = GREEDY
    cancel_after_tokens: int | None = None


class _Line(BaseModel):
    """What a line holds besides the conversation, which `load_conversation` checks."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    messages: Any
    tools: Any = None
    kwargs: Any = None
    chat_template_kwargs: Any = None
    id: str | None = None
    max_tokens: int = Field(DEFAULT_MAX_TOKENS, ge=0)
    temperature: float = Field(0.0, ge=0)
    top_k: int = Field(0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    min_p: float = Field(0.0, ge=0, le=1)
    seed: int = Field(0, ge=0, lt=2**32)
    cancel_after_tokens: int | None = Field(None, ge=1)


def read_requests(path: str | os.PathLike[str]) -> list[Request]:
    """All requests of a JSONL file, one a line; blank lines are skipped, a missing `id` becomes the line's number.

    The whole file is checked before anything is returned. Raises `RequestError` naming file, line and field.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return parse_requests(_bounded_lines(file, name), name)
    except OSError as error:
        raise RequestError(name, error.strerror or str(error)) from error


def _bounded_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of a file; raises `RequestError` when they go on past the limit, as those of a device would."""
    left = _MAX_FILE_BYTES
    while line := file.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise RequestError(name, f"larger than {_MAX_FILE_BYTES >> 20} MiB")
        yield line


def parse_requests(lines: Iterable[bytes], name: str) -> list[Request]:
    """As `read_requests`, from the lines themselves; `name` stands for the file in errors."""
    requests = [
        _parse(line, f"{name} line {number}", str(number)) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not requests:
        raise RequestError(name, "holds no requests")
    return requests


def _parse(text: bytes, where: str, default_id: str) -> Request:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(where, f"not valid JSON ({error})") from error
    if not isinstance(body, dict):
        raise RequestError(where, "should be an object with messages")
    try:
        line = _Line.model_validate(body)
        conversation = load_conversation(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field_name = ".".join(str(step) for step in first["loc"])
        reason = {"missing": "missing", "extra_forbidden": "no such field"}.get(first["type"], first["msg"])
        raise RequestError(f"{where}, {field_name}", reason) from error
    except ConversationError as error:
        raise RequestError(f"{where}, {error.where}", error.reason) from error
    return Request(
        messages=conversation.messages,
        tools=conversation.tools,
        kwargs=conversation.kwargs,
        id=default_id if line.id is None else line.id,
        max_tokens=line.max_tokens,
        sampling=Sampling(line.temperature, line.top_k, line.top_p, line.min_p, line.seed),
        cancel_after_tokens=line.cancel_after_tokens,
    )
