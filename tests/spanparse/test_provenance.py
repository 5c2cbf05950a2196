"""From a character to the value it came from, and from a value to its characters."""

from __future__ import annotations

from typing import Any

import pytest

from spanparse import Request, load_source, trace
from spanparse.sources import bundled_names

CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "weather", "arguments": {"city": "Nuuk", "days": 12345, "two words": ["qqx", "qqy"]}},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "How is the weather?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00001", "name": "weather", "content": "qqsnow"},
    {"role": "assistant", "content": "It snows."},
    {"role": "user", "content": "Thanks."},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "qqdescription",
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "qqcity"}}},
        },
    }
]
REQUEST = Request(MESSAGES, TOOLS)
ARGUMENTS = "messages[1].tool_calls[0].function.arguments"


@pytest.mark.parametrize("name", [name for name in bundled_names() if name != "gemma3"])
def test_each_value_is_found_from_its_characters_and_back(name: str) -> None:
    found = trace(load_source(name), REQUEST)
    assert found.exact
    for value, path in (
        ("How is the weather?", "messages[0].content"),
        ("Nuuk", f"{ARGUMENTS}.city"),
        ("12345", f"{ARGUMENTS}.days"),
        ("qqy", f'{ARGUMENTS}["two words"][1]'),
        ("qqsnow", "messages[2].content"),
        ("qqdescription", "tools[0].function.description"),
        ("qqcity", "tools[0].function.parameters.properties.city.description"),
    ):
        at = found.text.index(value)
        assert found.at(at + 1).path == path
        assert any(piece.start <= at and at + len(value) <= piece.end for piece in found.where(path))


@pytest.mark.parametrize("name", [name for name in bundled_names() if name != "gemma3"])
def test_both_ways_give_the_same_stretches(name: str) -> None:
    found = trace(load_source(name), REQUEST)
    sources = {(source.start, source.end): source for source in map(found.at, range(len(found.text)))}
    shown = {source.path for source in sources.values() if not source.is_template_text}
    for path in shown:
        inside = [
            span
            for span, source in sources.items()
            if not source.is_template_text and (source.path == path or source.path.startswith((f"{path}.", f"{path}[")))
        ]
        told = [(piece.start, piece.end) for piece in found.where(path)]
        assert {i for span in inside for i in range(*span)} == {i for span in told for i in range(*span)}
        if all(sources[span].path == path for span in inside):
            assert sorted(inside) == told


def test_a_string_in_json_has_its_quotes_both_ways() -> None:
    found = trace(load_source("chatml"), REQUEST)
    city = found.text.rindex('"Nuuk"')
    assert (city, city + len('"Nuuk"')) in found.where(f"{ARGUMENTS}.city")
    source = found.at(city + 1)
    assert (source.start, source.end, source.offset) == (city, city + len('"Nuuk"'), None)


def test_the_offset_counts_in_the_value_itself() -> None:
    found = trace(load_source("chatml"), REQUEST)
    source = found.at(found.text.index("weather?"))
    assert source.offset == 0
    assert found.text[source.start : source.end] == "How is the weather?"
    assert not source.is_template_text


def test_template_text_says_what_it_was_written_for() -> None:
    found = trace(load_source("chatml"), REQUEST)
    source = found.at(found.text.index("<|im_start|>user\n<tool_response>"))
    assert source.is_template_text
    assert source.path == "messages[2]"
    assert source.offset is None


def test_a_message_s_path_covers_all_its_fields_and_not_those_of_its_namesakes() -> None:
    messages = [{"role": "user", "content": f"qq{i}."} for i in range(11)]
    found = trace(load_source("chatml"), Request(messages))
    assert [found.text[a:b] for a, b in found.where("messages[1].content")] == ["qq1."]
    assert found.where("messages[1].contents") == ()


def test_offsets_outside_the_text_are_refused() -> None:
    found = trace(load_source("chatml"), Request(MESSAGES[:1]))
    with pytest.raises(IndexError, match="outside the text"):
        found.at(len(found.text))
