"""Chat requests, and the JSONL file they are played from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from runtime.errors import RequestError
from runtime.sampling import GREEDY, Sampling
from runtime.sampling.parameters import ABOVE_LEAST, RANGES
from runtime.sampling.schema import schema_grammar
from spanparse.conversation import load_conversation
from spanparse.errors import ConversationError
from spanparse.files import read_file

DEFAULT_MAX_TOKENS = 16
_MAX_FILE_BYTES = 1 << 30
_TOKEN_ID = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Request:
    """One chat request: a conversation, how to continue it, and when to stop.

    `kwargs` go to the template. `max_tokens` may be 0, which only evaluates the prompt. `cancel_after_tokens` stops the
    evaluation of the prompt once that many tokens were evaluated, as a client that hangs up would. `timeout`: seconds
    after which nobody waits for the answer any more; states are then saved on the way through the prompt, so that the
    next try goes on from where this one ended.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    sampling: Sampling = GREEDY
    cancel_after_tokens: int | None = None
    timeout: float | None = None

    def check(self, n_vocab: int) -> None:
        """Raise `RequestError` for a field that cannot be meant, and what `Sampling.check` raises."""
        if not isinstance(self.messages, list | tuple) or not all(isinstance(each, Mapping) for each in self.messages):
            raise RequestError("messages", "should be a list of messages, each an object")
        if not isinstance(self.kwargs, Mapping) or not all(isinstance(name, str) for name in self.kwargs):
            raise RequestError("kwargs", "should be an object of values by name")
        if not isinstance(self.max_tokens, int) or isinstance(self.max_tokens, bool) or self.max_tokens < 0:
            raise RequestError("max_tokens", f"{self.max_tokens!r} is no number of tokens")
        if not isinstance(self.sampling, Sampling):
            raise RequestError("sampling", "should be a runtime.Sampling")
        self.sampling.check(n_vocab)


def _token_ids(value: Any) -> Any:
    """JSON has no numbers for keys: `{"42": -100}`."""
    if isinstance(value, dict) and all(isinstance(key, str) and _TOKEN_ID.fullmatch(key) for key in value):
        return {int(key): bias for key, bias in value.items()}
    raise ValueError("should be an object of token ids and biases")


def _texts(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Edge(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _JsonSchema(_Edge):
    json_schema: dict[str, Any] = Field(alias="schema")
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class _ResponseFormat(_Edge):
    """`json_object` means any object; with `json_schema` its `schema` is kept, whatever `strict` says."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> _ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema and the type json_schema go together")
        return self

    def grammar(self) -> str | None:
        """Raises `RequestError` naming the field of a schema that cannot be kept."""
        if self.json_schema is not None:
            return schema_grammar(self.json_schema.json_schema, "response_format.json_schema.schema")
        return schema_grammar({"type": "object"}) if self.type == "json_object" else None


def _sampling(name: str) -> Any:
    """A field of `Sampling` with its default and range."""
    least, most = RANGES[name]
    above = name in ABOVE_LEAST
    return Field(getattr(GREEDY, name), gt=least if above else None, ge=None if above else least, le=most)


class _Line(_Edge):
    """What a line holds besides the conversation, which `load_conversation` checks.

    The names are OpenAI's and llama.cpp's. Null is the same as nothing.
    """

    messages: Any
    tools: Any = None
    kwargs: Any = None
    chat_template_kwargs: Any = None
    id: str | None = None
    max_tokens: int | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=0)
    temperature: float = _sampling("temperature")
    top_k: int = _sampling("top_k")
    top_p: float = _sampling("top_p")
    min_p: float = _sampling("min_p")
    seed: int = _sampling("seed")
    typical_p: float = _sampling("typical_p")
    repeat_penalty: float = _sampling("repeat_penalty")
    repeat_last_n: int = _sampling("repeat_last_n")
    frequency_penalty: float = _sampling("frequency_penalty")
    presence_penalty: float = _sampling("presence_penalty")
    logit_bias: Annotated[dict[int, Annotated[float, Field(ge=-100, le=100)]], BeforeValidator(_token_ids)] = {}
    grammar: str | None = None
    response_format: _ResponseFormat | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=64), BeforeValidator(_texts)] = []
    logprobs: bool = False
    top_logprobs: int | None = _sampling("top_logprobs")
    cancel_after_tokens: int | None = Field(None, ge=1)
    timeout: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _agrees(self) -> _Line:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens are two names of one limit")
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        if self.grammar is not None and self.response_format is not None:
            raise ValueError("grammar and response_format exclude each other")
        return self

    def limit(self) -> int:
        given = self.max_completion_tokens if self.max_tokens is None else self.max_tokens
        return DEFAULT_MAX_TOKENS if given is None else given

    def sampling(self) -> Sampling:
        """Raises `RequestError` for a grammar that cannot be followed and a schema that cannot be kept."""
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
            typical_p=self.typical_p,
            repeat_penalty=self.repeat_penalty,
            repeat_last_n=self.repeat_last_n,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            logit_bias=tuple(self.logit_bias.items()),
            grammar=self.response_format.grammar() if self.response_format else self.grammar,
            stop=tuple(self.stop),
            top_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )


def read_requests(path: str | os.PathLike[str]) -> list[Request]:
    """All requests of a JSONL file, one a line; blank lines are skipped, a missing `id` becomes the line's number.

    The whole file is checked before anything is returned. Raises `RequestError` naming file, line and field.
    """
    name = os.fspath(path)
    try:
        data = read_file(name, _MAX_FILE_BYTES)
    except OSError as error:
        raise RequestError(name, error.strerror or str(error)) from error
    if data is None:
        raise RequestError(name, f"larger than {_MAX_FILE_BYTES >> 20} MiB")
    return parse_requests(data.splitlines(), name)


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
        line = _Line.model_validate({key: value for key, value in body.items() if value is not None})
        sampling = line.sampling()
        conversation = load_conversation(body)
    except RequestError as error:
        raise RequestError(f"{where}, {error.where}", error.reason) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        reason = {"missing": "missing", "extra_forbidden": "no such field"}.get(first["type"], first["msg"])
        reason = reason.removeprefix("Value error, ")
        field_name = ".".join(str(step) for step in first["loc"])
        raise RequestError(f"{where}, {field_name}" if field_name else where, reason) from error
    except ConversationError as error:
        raise RequestError(f"{where}, {error.where}", error.reason) from error
    return Request(
        messages=conversation.messages,
        tools=conversation.tools,
        kwargs=conversation.kwargs,
        id=default_id if line.id is None else line.id,
        max_tokens=line.limit(),
        sampling=sampling,
        cancel_after_tokens=line.cancel_after_tokens,
        timeout=line.timeout,
    )
