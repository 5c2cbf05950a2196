"""From a token back to the field it came from."""

from __future__ import annotations

import pytest

from runtime.tiny.vocabulary import hf_tokenizer
from spanparse import load_source, parse
from spanparse.tokens import HuggingFaceTokenizer, token_map
from spanparse.tokens.drift import field_at

CALL = {"type": "function", "function": {"name": "look", "arguments": {"path": "notes"}}}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks around.", "parameters": {}}}
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is there?"},
    {"role": "assistant", "content": "", "reasoning_content": "Perhaps a file.", "tool_calls": [CALL]},
    {"role": "tool", "content": "Nothing here."},
]


@pytest.fixture(scope="module")
def prompt():
    template = load_source("chatml")
    rendering = parse(template, MESSAGES, tools=[TOOL])
    return rendering, token_map(rendering, HuggingFaceTokenizer(hf_tokenizer()), template=template.text)


def where(prompt, text):
    """The place of the first token that begins inside the first occurrence of `text`."""
    rendering, tokens = prompt
    start = rendering.text.index(text)
    return field_at(rendering, tokens, next(i for i, offset in enumerate(tokens.offsets) if offset >= start))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Be brief.", "messages[0].content"),
        ("Looks around.", "tools[0].function.description"),
        ("What is there?", "messages[1].content"),
        ("Perhaps a file.", "messages[2].reasoning_content"),
        ("Nothing here.", "messages[3].content"),
    ],
)
def test_text_of_a_field_is_placed_in_the_field(prompt, text, place):
    assert place.startswith(where(prompt, text))
    assert where(prompt, text).split(".")[0].split("[")[0] == place.split("[")[0]


def test_text_of_the_template_is_placed_in_its_message(prompt):
    assert where(prompt, "<|im_start|>user") == "messages[1]"


def test_a_tool_call_is_placed_in_its_call(prompt):
    assert where(prompt, "notes").startswith("messages[2].tool_calls[0]")


def test_the_generation_prompt_and_what_lies_past_the_end_are_nowhere(prompt):
    rendering, tokens = prompt
    assert field_at(rendering, tokens, tokens.generation_prompt.begin) is None
    assert field_at(rendering, tokens, tokens.count) is None
