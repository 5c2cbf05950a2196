"""The ways a conversation goes on, as the messages of the next request.

What a template rewrites depends on which messages follow, hardly ever on what they say. So the new messages hold words
of our own, in the form that the conversation uses: text or lists of parts, tool arguments as objects or as JSON, and
reasoning where its assistant messages bring it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from spanparse.rendering.render import Message, Tool
from spanparse.spans import REASONING_FIELDS

ContinuationName = Literal[
    "assistant_answer", "assistant_answer_with_reasoning", "tool_call", "user_message", "regenerate", "edit_last_user"
]

NAMES: Final[tuple[ContinuationName, ...]] = get_args(ContinuationName)
"""All names, in the order in which outcomes are reported."""

# Sentences that a conversation hardly holds itself, so that they can be found in the next prompt.
_ANSWER: Final = "Well, that would be all of it."
_USER: Final = "Fine, then what comes after this?"
_THOUGHT: Final = "Let me see where this leads."
_RESULT: Final = "Looked it up and found as expected."
_EDITS: Final = ("Quite another question.", "Something else, then.", "Never mind that.")
# Mistral's templates insist on nine characters.
_CALL_ID: Final = "nextcall1"


@dataclass(frozen=True, slots=True)
class Continuation:
    """The messages of a possible next request.

    The first `common` messages are the present request's, untouched; at `common` the client adds, replaces or removes.
    `answer` is the index of the assistant message that answers the present request, None where there is none.
    """

    name: ContinuationName
    messages: list[Message]
    common: int
    answer: int | None = None

    def with_reasoning(self) -> Continuation | None:
        """The same, but the answer comes back with its reasoning; None if it does already or there is no answer."""
        if self.answer is None or _reasoning_field(self.messages[self.answer]) is not None:
            return None
        thinking = {**self.messages[self.answer], REASONING_FIELDS[0]: _THOUGHT}
        messages = [*self.messages[: self.answer], thinking, *self.messages[self.answer + 1 :]]
        return Continuation(self.name, messages, self.common, self.answer)


def appends(name: ContinuationName) -> bool:
    """Whether a continuation only adds to the present request's messages, so that what is lost is the template's doing.

    In all others the client takes messages back or changes them.
    """
    return name not in ("regenerate", "edit_last_user")


def continuations(messages: list[Message], tools: list[Tool] | None = None) -> tuple[Continuation, ...]:
    """What may follow a request of `messages`, in the order of `ContinuationName`.

    `assistant_answer` and `assistant_answer_with_reasoning` append an answer, `tool_call` a call and its result,
    `user_message` an answer and the user's next words. Results that the last message waits for, and a user message
    where the assistant spoke last or nobody has asked yet, come first. `regenerate` asks for the last answer again and
    is the present request itself where no answer stands at its end. `edit_last_user` replaces the text of the last user
    message from its first character on and drops what followed; it is left out where no user has spoken, `regenerate`
    where nothing is left.

    Where it is left open whether an answer brings reasoning, it does if any assistant message of the conversation does,
    or if there is none yet.
    """
    style = _style_of(messages)
    lead = _lead(messages, style)
    base = [*messages, *lead]
    user: Message = {"role": "user", "content": style.user_text(_USER)}
    thinks = style.reasoning is not None

    def after(name: ContinuationName, *new: Message) -> Continuation:
        return Continuation(name, [*base, *new], len(messages), len(base) if new else None)

    found = [after("assistant_answer", style.answer(False))]
    found.append(after("assistant_answer_with_reasoning", style.answer(True)))
    if _is_waiting(messages):
        found.append(after("tool_call"))
    else:
        call = style.call(_tool_name(tools))
        result = {"role": "tool", "tool_call_id": _CALL_ID, "name": _tool_name(tools), "content": _RESULT}
        found.append(after("tool_call", style.answer(thinks, call), result))
    if lead and lead[-1]["role"] == "user":
        found.append(after("user_message"))
    else:
        found.append(after("user_message", style.answer(thinks), user))
    kept = len(messages) - (messages[-1].get("role") == "assistant" if messages else 0)
    if kept:
        found.append(Continuation("regenerate", messages[:kept], kept))
    asked = _last_user(messages)
    if asked is not None:
        found.append(Continuation("edit_last_user", [*messages[:asked], _edited(messages[asked])], asked))
    return tuple(found)


def two_turns(messages: list[Message]) -> list[Message]:
    """`messages` with an answer that brings reasoning and two further user turns, in the conversation's own form."""
    style = _style_of(messages)
    user: Message = {"role": "user", "content": style.user_text(_USER)}
    return [*messages, *_lead(messages, style), style.answer(True), user, style.answer(False), user]


def second_answer(messages: list[Message]) -> list[Message] | None:
    """`messages` with another answer right behind the one they end with; None if they end with none."""
    if not messages or messages[-1].get("role") != "assistant":
        return None
    return [*messages, _style_of(messages).answer(False)]


class _Style(NamedTuple):
    """The form that a conversation's messages have.

    `reasoning`: the field that reasoning comes in, `content` where it stands in the text, None if answers have none.
    `user_parts`, `answer_parts`: texts are lists of parts. `last_call`: the latest message that calls tools.
    """

    reasoning: str | None
    user_parts: bool
    answer_parts: bool
    last_call: Message | None

    def user_text(self, text: str) -> Any:
        return _content(text, self.user_parts)

    def answer(self, thinks: bool, call: dict[str, Any] | None = None) -> Message:
        """An assistant message, in the manner of the conversation's latest call if it makes one."""
        inline = thinks and self.reasoning == "content"
        opening = f"<think>\n{_THOUGHT}\n</think>\n\n" if inline else ""
        message: Message = {"role": "assistant", "content": _content(opening + _ANSWER, self.answer_parts)}
        if call is not None:
            message["tool_calls"] = [call]
            said = "" if self.last_call is None else self.last_call.get("content")
            if not said and not inline:
                message["content"] = said
        if thinks and not inline:
            message[self.reasoning or REASONING_FIELDS[0]] = _THOUGHT
        return message

    def call(self, name: str) -> dict[str, Any]:
        earlier = self.last_call["tool_calls"][0] if self.last_call else {}
        wrapped = earlier.get("function", earlier)
        arguments: Any = {"at": "it"}
        if isinstance(wrapped.get("arguments"), str):
            arguments = json.dumps(arguments)
        function = {"name": name, "arguments": arguments}
        if earlier and "function" not in earlier:
            return {"id": _CALL_ID, **function}
        return {"id": _CALL_ID, "type": "function", "function": function}


def _style_of(messages: list[Message]) -> _Style:
    answers = [message for message in messages if message.get("role") == "assistant"]
    reasoning = next((field for m in reversed(answers) if (field := _reasoning_field(m))), None)
    if not answers:
        reasoning = REASONING_FIELDS[0]
    calling = next((message for message in reversed(answers) if message.get("tool_calls")), None)
    users = [message for message in messages if message.get("role") == "user"]
    return _Style(reasoning, _in_parts(users or messages), _in_parts(answers or messages), calling)


def _reasoning_field(message: Message) -> str | None:
    field = next((field for field in REASONING_FIELDS if message.get(field)), None)
    content = message.get("content")
    if field is None and isinstance(content, str) and "</think>" in content:
        return "content"
    return field


def _in_parts(messages: list[Message]) -> bool:
    contents = [message["content"] for message in messages if message.get("content")]
    return bool(contents) and isinstance(contents[-1], list)


def _content(text: str, in_parts: bool) -> Any:
    return [{"type": "text", "text": text}] if in_parts else text


def _is_waiting(messages: list[Message]) -> bool:
    """Whether the last message calls tools."""
    return bool(messages) and bool(messages[-1].get("tool_calls"))


def _lead(messages: list[Message], style: _Style) -> list[Message]:
    """What must come before the assistant speaks: awaited results, or a user message."""
    if _is_waiting(messages):
        calls = [(call.get("id") or _CALL_ID, call.get("function", call)) for call in messages[-1]["tool_calls"]]
        return [
            {"role": "tool", "tool_call_id": id, "name": function.get("name"), "content": _RESULT}
            for id, function in calls
        ]
    if _last_user(messages) is not None and messages[-1].get("role") != "assistant":
        return []
    return [{"role": "user", "content": style.user_text(_USER)}]


def _tool_name(tools: list[Tool] | None) -> str:
    first = tools[0] if tools else {}
    return first.get("function", first).get("name") or "look"


def _last_user(messages: list[Message]) -> int | None:
    return next((i for i in reversed(range(len(messages))) if messages[i].get("role") == "user"), None)


def _edited(message: Message) -> Message:
    """The message with every text replaced by one that differs from its first character on; media stay."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": _another(content or "")}
    parts: list[Any] = [
        {**part, "text": _another(part["text"])} if isinstance(part, dict) and "text" in part else part
        for part in content
    ]
    return {**message, "content": parts}


def _another(text: str) -> str:
    # Templates trim texts, so that the first character shown may not be the first one there.
    taken = {text[:1], text.strip()[:1]}
    return next(edit for edit in _EDITS if edit[0] not in taken)
