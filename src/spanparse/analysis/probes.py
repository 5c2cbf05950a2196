"""Small conversations, each of which shows one thing that templates treat differently."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from spanparse.rendering.render import Message, Tool


class Probe(NamedTuple):
    """A conversation with a name that finishes the sentence "what does the template do with …"."""

    shape: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    add_generation_prompt: bool = True
    # The form of the content is what the probe is about, so it stays as it is where others are given lists of parts.
    as_it_is: bool = False


# No two begin with the same letter, so that whatever texts have in common is the template's.
SYSTEM: Final = "Keep to the path."
USER: Final = "Where is the mill?"
SECOND_USER: Final = "And how far is that?"
THIRD_USER: Final = "Thank you, that helps."
ANSWER: Final = "Over the bridge."
SECOND_ANSWER: Final = "Just one mile."
REASONING: Final = "Remember the map first."
SECOND_REASONING: Final = "Bridges are all mapped."
THIRD_REASONING: Final = "Quickly measured on it."
RESULT: Final = "North bank, by the weir."
SECOND_RESULT: Final = "Five hundred yards."
CALL_IDS: Final = ("k4Lm9PqRs", "v7WxYz2Ab")
FUNCTIONS: Final = ("locate_place", "measure_way")
KEYS: Final = ("landmark", "waypoint")
VALUES: Final = ("windmill", "footbridge")


def system(text: str = SYSTEM) -> Message:
    return {"role": "system", "content": text}


def user(text: str = USER) -> Message:
    return {"role": "user", "content": text}


def answer(
    text: str | None = ANSWER, reasoning: str | None = None, calls: list[dict[str, Any]] | None = None
) -> Message:
    message: Message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls is not None:
        message["tool_calls"] = calls
    return message


def call(number: int = 0, arguments: dict[str, Any] | str | None = None) -> dict[str, Any]:
    given = {KEYS[number]: VALUES[number]} if arguments is None else arguments
    function = {"name": FUNCTIONS[number], "arguments": given}
    return {"id": CALL_IDS[number], "type": "function", "function": function}


def result(text: str = RESULT, number: int = 0) -> Message:
    return {"role": "tool", "tool_call_id": CALL_IDS[number], "name": FUNCTIONS[number], "content": text}


def tool(number: int = 0) -> Tool:
    parameters = {
        "type": "object",
        "properties": {KEYS[number]: {"type": "string", "description": "What to look for."}},
        "required": [KEYS[number]],
    }
    description = ("Finds a place by name.", "Tells the length of a way.")[number]
    function = {"name": FUNCTIONS[number], "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: Final = (tool(0), tool(1))
STRING_ARGUMENTS: Final = f'{{"{KEYS[0]}":"{VALUES[0]}"}}'
WHITE_SPACE: Final = " \n {} \n "


def anonymous(text: str) -> str:
    """`text` with `{id}` and `{name}` in place of what differs from call to call."""
    for placeholder, values in (("{id}", CALL_IDS), ("{name}", FUNCTIONS)):
        for value in values:
            text = text.replace(value, placeholder)
    return text


def _parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


ONE_USER: Final = Probe("one user message", (user(),))
SYSTEM_USER: Final = Probe("system message", (system(), user()))
TURNS: Final = Probe("several turns", (user(), answer(), user(SECOND_USER), answer(SECOND_ANSWER), user(THIRD_USER)))
WITH_SYSTEM: Final = Probe("system message and several turns", (system(), *TURNS.messages))
ANSWER_LAST: Final = Probe("assistant last", (user(), answer()), add_generation_prompt=False)
TOOLS_ALONE: Final = Probe("tool definitions", (user(),), TOOLS)
TOOLS_SYSTEM: Final = Probe("tool definitions and system message", (system(), user()), TOOLS)
TOOLS_TURNS: Final = Probe("tool definitions and several turns", TURNS.messages, TOOLS)
CALL: Final = Probe("tool call", (user(), answer("", calls=[call()]), result()), TOOLS)
CALL_ANSWERED: Final = Probe("tool call and answer", (*CALL.messages, answer(), user(SECOND_USER)), TOOLS)
CALLS: Final = Probe(
    "two tool calls at once",
    (user(), answer("", calls=[call(0), call(1)]), result(), result(SECOND_RESULT, 1), answer(), user(SECOND_USER)),
    TOOLS,
)
CALL_BARE: Final = Probe(
    "tool call without arguments",
    (user(), answer("", calls=[call(0, {})]), result(), answer(), user(SECOND_USER)),
    TOOLS,
)
CALL_LAST: Final = Probe("tool call last", (user(), answer("", calls=[call()])), TOOLS, False)
STRING_CALL: Final = Probe(
    "tool call with string arguments", (user(), answer("", calls=[call(0, STRING_ARGUMENTS)]), result()), TOOLS
)
THINKING: Final = Probe("reasoning", (user(), answer(ANSWER, REASONING)), add_generation_prompt=False)
THINKING_TURNS: Final = Probe(
    "reasoning in several turns",
    (user(), answer(ANSWER, REASONING), user(SECOND_USER), answer(SECOND_ANSWER, SECOND_REASONING), user(THIRD_USER)),
)
THINKING_LOOP: Final = Probe(
    "reasoning in a tool loop",
    (
        user(),
        answer(ANSWER, REASONING),
        user(SECOND_USER),
        answer("", SECOND_REASONING, [call()]),
        result(),
        answer("", THIRD_REASONING, [call(1)]),
        result(SECOND_RESULT, 1),
    ),
    TOOLS,
)
AGENT: Final = Probe("agent", (system(), *THINKING_LOOP.messages), TOOLS)
THINKING_SYSTEM: Final = Probe(
    "system message and reasoning", (system(), user(), answer(ANSWER, REASONING), user(SECOND_USER))
)
INLINE_TURNS: Final = Probe(
    "reasoning inside the content",
    (
        user(),
        answer(f"<think>\n{REASONING}\n</think>\n\n{ANSWER}"),
        user(SECOND_USER),
        answer(f"<think>\n{SECOND_REASONING}\n</think>\n\n{SECOND_ANSWER}"),
    ),
    add_generation_prompt=False,
)
JSON_RESULT: Final = Probe(
    "tool result that is JSON", (user(), answer("", calls=[call()]), result('{"bank":"north",  "steps":5}')), TOOLS
)
SPACED: Final = Probe(
    "white space around texts",
    tuple(
        {**message, "content": WHITE_SPACE.format(message["content"])}
        for message in (system(), user(), answer(), user(SECOND_USER))
    ),
)
SPACED_RESULT: Final = Probe(
    "white space around a tool result", (user(), answer("", calls=[call()]), result(WHITE_SPACE.format(RESULT))), TOOLS
)


PICTURES: Final = Probe(
    "two images", ({"role": "user", "content": [{"type": "image"}, {"type": "image"}, *_parts(USER)]},), as_it_is=True
)
ORDINARY: Final = (
    ONE_USER,
    SYSTEM_USER,
    TURNS,
    WITH_SYSTEM,
    ANSWER_LAST,
    TOOLS_TURNS,
    CALL,
    CALL_ANSWERED,
    THINKING,
    THINKING_TURNS,
    THINKING_LOOP,
)
"""Conversations as they usually go."""


VERDICT_PROBES: Final = (
    ONE_USER,
    SYSTEM_USER,
    TURNS,
    WITH_SYSTEM,
    ANSWER_LAST,
    Probe("developer message", ({"role": "developer", "content": SYSTEM}, user())),
    Probe(
        "developer message in the middle",
        (user(), answer(), {"role": "developer", "content": SYSTEM}, user(SECOND_USER)),
    ),
    Probe("system message in the middle", (user(), answer(), system(), user(SECOND_USER))),
    Probe("two system messages", (system(), system("Mind the dog."), user())),
    Probe("two user messages in a row", (user(), user(SECOND_USER))),
    Probe("two assistant messages in a row", (user(), answer(), answer(SECOND_ANSWER), user(SECOND_USER))),
    Probe("assistant first", (answer(), user())),
    Probe("no user message", (system(),)),
    Probe("unknown role", (user(), {"role": "narrator", "content": "It rains."}, user(SECOND_USER))),
    TOOLS_ALONE,
    TOOLS_SYSTEM,
    TOOLS_TURNS,
    CALL,
    CALL_ANSWERED,
    CALL_LAST,
    CALLS,
    STRING_CALL,
    Probe("tool call with text beside it", (user(), answer(ANSWER, calls=[call()]), result()), TOOLS),
    Probe("tool call with null content", (user(), answer(None, calls=[call()]), result()), TOOLS, as_it_is=True),
    CALL_BARE,
    Probe("tool result without a call", (user(), result()), TOOLS),
    Probe("tool messages without tool definitions", CALL.messages),
    THINKING,
    THINKING_TURNS,
    THINKING_LOOP,
    INLINE_TURNS,
    Probe("text as content", (user(),), as_it_is=True),
    Probe("list content", ({"role": "user", "content": _parts(USER)},), as_it_is=True),
    Probe("list content with two texts", ({"role": "user", "content": _parts(USER, SECOND_USER)},), as_it_is=True),
    Probe("null content", (user(), answer(None), user(SECOND_USER)), as_it_is=True),
    Probe("empty content", (user(), answer(""), user(SECOND_USER))),
    SPACED,
    SPACED_RESULT,
    JSON_RESULT,
)
"""What an analysis asks about; the first is the least that a template may be expected to take."""
