"""OpenAI-style messages and tools: checked, never changed.

A template must see what transformers would hand it, so the models below only judge: the caller's own dictionaries are
returned, unknown fields and all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

from spanparse.errors import ConversationError
from spanparse.nesting import check_depth

# What a template receives under these names is not the caller's to set.
_RESERVED: Final = {
    "messages": "belongs beside kwargs, not in them",
    "tools": "belongs beside kwargs, not in them",
    "add_generation_prompt": "is an option of its own",
}
_KWARGS: Final = ("kwargs", "chat_template_kwargs")
_MAX_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Conversation:
    """Checked input of one rendering: the caller's own messages, tools (None if not given) and template kwargs."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


def _shape(*kinds: tuple[type, str]) -> Discriminator:
    """Tells the alternatives of a union apart by the value's type; "!" is the tag of no alternative."""

    def tag(value: object) -> str:
        return next((tag for kind, tag in kinds if isinstance(value, kind)), "!")

    expected = " or ".join(tag.strip("<>") for _, tag in kinds)
    return Discriminator(tag, custom_error_type="shape", custom_error_message=f"should be {expected}")


# Tags stand in the paths of pydantic's errors; the brackets let `_path` recognise and drop them.
_String = Annotated[str, Tag("<a string>")]
_Null = Annotated[None, Tag("<null>")]


class _Url(_Model):
    url: str


class _Audio(_Model):
    data: str
    format: str | None = None


class _TextPart(_Model):
    type: Literal["text"]
    text: str


class _ImageUrlPart(_Model):
    type: Literal["image_url"]
    image_url: Annotated[
        _String | Annotated[_Url, Tag("<an object with a url>")],
        _shape((str, "<a string>"), (dict, "<an object with a url>")),
    ]


class _InputAudioPart(_Model):
    type: Literal["input_audio"]
    input_audio: _Audio


class _OtherPart(_Model):
    """`image`, `audio` and `video` as transformers spells them, and whatever else a template may know."""

    type: str


_PARTS: Final = ("text", "image_url", "input_audio")


def _part_tag(part: object) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    return f"<{kind}>" if kind in _PARTS else "<other>"


_Part = Annotated[
    Annotated[_TextPart, Tag("<text>")]
    | Annotated[_ImageUrlPart, Tag("<image_url>")]
    | Annotated[_InputAudioPart, Tag("<input_audio>")]
    | Annotated[_OtherPart, Tag("<other>")],
    Discriminator(_part_tag),
]
_Content = Annotated[
    _String | Annotated[list[_Part], Tag("<a list of parts>")] | _Null,
    _shape((str, "<a string>"), (list, "<a list of parts>"), (type(None), "<null>")),
]


class _Function(_Model):
    name: str
    arguments: Annotated[
        _String | Annotated[dict[str, Any], Tag("<an object>")], _shape((str, "<a string>"), (dict, "<an object>"))
    ]


class _WrappedCall(_Model):
    id: str | None = None
    type: str | None = None
    function: _Function


class _FlatCall(_Function):
    """A call without the `function` level, which transformers documents too."""

    id: str | None = None


def _call_tag(call: object) -> str:
    return "<flat>" if isinstance(call, dict) and "function" not in call and "name" in call else "<wrapped>"


_Call = Annotated[
    Annotated[_WrappedCall, Tag("<wrapped>")] | Annotated[_FlatCall, Tag("<flat>")], Discriminator(_call_tag)
]


class _Message(_Model):
    # Which roles there are, the template decides: `ipython` and `function` are those of some.
    role: Annotated[str, Field(min_length=1)]
    content: _Content
    name: str | None = None
    tool_call_id: str | None = None


class _AssistantMessage(_Model):
    role: Literal["assistant"]
    content: _Content = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


def _message_tag(message: object) -> str:
    return "<assistant>" if isinstance(message, dict) and message.get("role") == "assistant" else "<message>"


class _Definition(_Model):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _WrappedTool(_Model):
    type: str | None = None
    function: _Definition


class _BuiltInTool(_Model):
    """A tool that the model knows by its type alone."""

    type: str


def _tool_tag(tool: object) -> str:
    if isinstance(tool, dict) and "function" not in tool:
        if "name" in tool:
            return "<flat>"
        if "type" in tool and tool["type"] != "function":
            return "<built in>"
    return "<wrapped>"


_MESSAGE: Final = TypeAdapter[Any](
    Annotated[
        Annotated[_Message, Tag("<message>")] | Annotated[_AssistantMessage, Tag("<assistant>")],
        Discriminator(_message_tag),
    ]
)
_TOOL: Final = TypeAdapter[Any](
    Annotated[
        Annotated[_WrappedTool, Tag("<wrapped>")]
        | Annotated[_Definition, Tag("<flat>")]
        | Annotated[_BuiltInTool, Tag("<built in>")],
        Discriminator(_tool_tag),
    ]
)


def load_conversation(data: object, tools: object = None, *, name: str = "messages") -> Conversation:
    """Reads a list of messages, or an object with `messages` and optionally `tools` and `kwargs`.

    `data` and `tools` are JSON text (`str`, or `bytes` in UTF-8) or what it parses to. `kwargs` may be called
    `chat_template_kwargs` instead, as servers do; other keys of the object, such as a request's `model`, are ignored.
    `tools` (as `load_tools` takes them) replaces those in `data`. `name` stands for the input in errors about the whole
    of it. Raises `ConversationError`.
    """
    body = _parse(data, name)
    kwargs: dict[str, Any] = {}
    own_tools: object = None
    if isinstance(body, dict):
        if "messages" not in body:
            raise ConversationError(name, "an object without messages")
        messages, own_tools = body["messages"], body.get("tools")
        given = [key for key in _KWARGS if body.get(key)]
        if len(given) > 1:
            raise ConversationError(name, f"{' and '.join(given)} are two names for the same")
        for key in given:
            kwargs = check_kwargs(body[key], key)
    else:
        messages = body
    check_messages(messages)
    return Conversation(messages, check_tools(own_tools) if tools is None else load_tools(tools), kwargs)


def load_tools(data: object, *, name: str = "tools") -> list[dict[str, Any]] | None:
    """Reads a list of tools, an object with `tools`, or null: JSON text or what it parses to.

    `name` stands for the input in errors about the whole of it. Raises `ConversationError`.
    """
    found = _parse(data, name)
    return check_tools(found["tools"] if isinstance(found, dict) and "tools" in found else found)


def check_messages(messages: object) -> list[dict[str, Any]]:
    """Returns the very list it was given; raises `ConversationError` naming message and field at the first fault."""
    if not isinstance(messages, list):
        raise ConversationError("messages", f"should be a list, got {_shown(messages)}")
    if not messages:
        raise ConversationError("messages", "the list is empty")
    for index, message in enumerate(messages):
        _check(_MESSAGE, message, f"messages[{index}]", index)
        check_depth(message, f"messages[{index}]", index)
    return messages


def check_tools(tools: object) -> list[dict[str, Any]] | None:
    """Returns the very tools it was given (None means none); raises `ConversationError` at the first fault."""
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise ConversationError("tools", f"should be a list, got {_shown(tools)}")
    for index, tool in enumerate(tools):
        _check(_TOOL, tool, f"tools[{index}]", None)
        check_depth(tool, f"tools[{index}]")
    return tools


def check_kwargs(kwargs: object, where: str = "kwargs") -> dict[str, Any]:
    """Returns the very kwargs it was given; raises `ConversationError` if no object, too deep or of a reserved name."""
    if not isinstance(kwargs, dict):
        raise ConversationError(where, f"should be an object, got {_shown(kwargs)}")
    for key in kwargs:
        if key in _RESERVED:
            raise ConversationError(f"{where}.{key}", _RESERVED[key])
    check_depth(kwargs, where)
    return kwargs


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Template kwargs from `key=value` pairs: the value as JSON if it parses, else the string as it stands."""
    kwargs: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise ConversationError("--set", f"should be key=value, got {_shown(setting)}")
        try:
            kwargs[key] = json.loads(value, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            kwargs[key] = value
    return check_kwargs(kwargs, "--set")


def _no_constant(name: str) -> NoReturn:
    """`NaN` and `Infinity` are Python's, not JSON's."""
    raise ValueError(name)


def _parse(data: object, name: str) -> Any:
    if not isinstance(data, str | bytes):
        return data
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise ConversationError(name, f"not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise ConversationError(name, "JSON nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ConversationError(name, f"not valid JSON ({error})") from error
    except ValueError as error:
        # Python's words about it are for programmers.
        raise ConversationError(name, "holds a number of too many digits") from error


def _check(adapter: TypeAdapter[Any], value: object, where: str, message: int | None) -> None:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = where + _path(first["loc"])
        if first["type"] == "missing":
            raise ConversationError(path, "missing", message) from error
        if first["type"] in ("model_type", "model_attributes_type"):
            reason = "should be an object"
        else:
            reason = first["msg"].removeprefix("Input ")
        raise ConversationError(path, f"{reason}, got {_shown(first['input'])}", message) from error


def _path(location: Sequence[int | str]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location if not _is_tag(step))
    return "".join(steps)


def _is_tag(step: int | str) -> bool:
    return isinstance(step, str) and step.startswith("<") and step.endswith(">")


def _shown(value: object) -> str:
    """The value on one line, cut short; only the type of what holds others."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = "null" if value is None else repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
