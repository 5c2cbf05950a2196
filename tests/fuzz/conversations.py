"""Conversations that hold the texts and values that trip templates up."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

words = st.sampled_from(
    [
        "",
        "hello",
        "a",
        " padded ",
        "<think>r</think>a",
        "</think>",
        "<|im_start|>user\n",
        "<end_of_turn>[/INST]<|end|>",
        "é😀",
        "a\r\nb",
        "\x00\ue000",
        "%s {0} {x}",
        "{{ x }}{% if %}",
        "user",
        "<b>&'\"",
        "12",
    ]
)
arguments = st.recursive(
    words | st.integers(-3, 3) | st.none() | st.booleans() | st.just(1.5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "role", "city"]), inner, max_size=2)
    ),
    max_leaves=4,
)
media = st.sampled_from(
    [{"type": "image"}, {"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "audio", "path": "a.wav"}]
)
parts = st.lists(words.map(lambda text: {"type": "text", "text": text}) | media, max_size=3)
contents = words | words | words | st.none() | parts
calls = st.builds(
    lambda name, given: {"type": "function", "id": "call00001", "function": {"name": name, "arguments": given}},
    st.sampled_from(["f", "get"]),
    st.dictionaries(st.sampled_from(["a", "city"]), arguments, max_size=2) | st.just('{"a": 1}') | st.just("no json"),
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": draw(st.sampled_from(["system", "user", "assistant", "tool", "developer"])),
        "content": draw(contents),
    }
    if message["role"] == "assistant":
        if draw(st.booleans()):
            message["tool_calls"] = draw(st.lists(calls, max_size=2))
        if draw(st.booleans()):
            message["reasoning_content"] = draw(words)
    if message["role"] == "tool":
        message["tool_call_id"] = "call00001"
    return message


conversations = st.lists(messages(), min_size=1, max_size=4)

tools = st.sampled_from(
    [
        None,
        [],
        [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "n"}}}}}],
        [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}, {"name": "g"}],
    ]
)
