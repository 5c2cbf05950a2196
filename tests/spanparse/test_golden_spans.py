"""Spans of the fixture conversations against goldens that were checked by eye against the published formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spanparse import load_source, parse
from spanparse.cli.inspect_json import inspection

FIXTURES = Path(__file__).parents[2] / "fixtures"
GOLDENS = sorted(path.stem for path in (FIXTURES / "spans").glob("*.json"))


def read(folder: str, name: str) -> dict[str, Any]:
    data = json.loads((FIXTURES / folder / f"{name}.json").read_text("utf-8"))
    assert isinstance(data, dict)
    return data


def inspected(template: str, conversation: dict[str, Any]) -> dict[str, Any]:
    source = load_source(template)
    kwargs = conversation.get("kwargs", {})
    rendering = parse(source, conversation["messages"], tools=conversation.get("tools"), kwargs=kwargs)
    return inspection(source, rendering, None)


def shared(actual: Any, golden: Any) -> Any:
    """`actual` without the keys that the golden does not name: the contract lets keys be added."""
    if isinstance(actual, dict) and isinstance(golden, dict):
        return {key: shared(actual.get(key), value) for key, value in golden.items()}
    if isinstance(actual, list) and isinstance(golden, list) and len(actual) == len(golden):
        return [shared(mine, theirs) for mine, theirs in zip(actual, golden, strict=True)]
    return actual


@pytest.mark.parametrize("name", GOLDENS)
def test_spans_of_a_fixture_conversation_are_those_of_its_golden(name: str) -> None:
    golden = read("spans", name)
    actual = inspected(golden["template"]["source"], read("conversations", name))
    assert shared(actual, golden) == golden


@pytest.mark.parametrize("name", GOLDENS)
def test_a_golden_tiles_its_text(name: str) -> None:
    golden = read("spans", name)
    stretches = [golden["preamble"], *([golden["generation_prompt"]] if golden["generation_prompt"] else [])]
    for message in golden["messages"]:
        stretches += message.get("pieces", [message])
    ends = 0
    for stretch in sorted((s["start"], s["end"]) for s in stretches):
        assert stretch[0] == ends
        ends = stretch[1]
    assert ends == len(golden["text"])


@pytest.mark.parametrize("name", GOLDENS)
def test_the_parts_of_a_golden_fill_their_message(name: str) -> None:
    for message in read("spans", name)["messages"]:
        pieces = message.get("pieces", [message])
        assert sum(p["end"] - p["start"] for p in message["parts"]) == sum(p["end"] - p["start"] for p in pieces)
