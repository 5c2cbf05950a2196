"""Parts, notes and turns remembered for a shape are those that each message would get by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spanparse import Rendering, TemplateRefused, load_source, parse
from spanparse.ownership.pieces import Pieces
from spanparse.sources import bundled_names

TEXTS = ["yes", "no ", "\nno", "", "  ", 'a "quoted" one', "one\ntwo", "yes yes"]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


def conversation(seed: int, rounds: int = 40) -> list[dict[str, Any]]:
    """Rounds of a few kinds, whose texts are trimmed, escaped or dropped by one template or another."""
    rng = random.Random(seed)
    chat: list[dict[str, Any]] = [{"role": "system", "content": "be kind"}]
    for number in range(rounds):
        chat.append({"role": "user", "content": rng.choice(TEXTS) or "go"})
        if rng.random() < 0.5:
            call = {"id": f"call{number:05d}", "type": "function"}
            arguments = {"at": rng.choice(TEXTS)}
            calls = [{**call, "function": {"name": "look", "arguments": arguments}}]
            chat.append({"role": "assistant", "content": rng.choice(TEXTS), "tool_calls": calls})
            if rng.random() < 0.5:
                chat[-1]["reasoning_content"] = rng.choice(TEXTS)
            chat.append({"role": "tool", "tool_call_id": call["id"], "name": "look", "content": rng.choice(TEXTS)})
        chat.append({"role": "assistant", "content": rng.choice(TEXTS)})
    return chat


@pytest.mark.parametrize("name", bundled_names())
def test_a_piece_that_looks_like_another_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def renderings() -> list[Rendering]:
        found = []
        for seed in range(3):
            chat = conversation(seed)
            try:
                found.append(parse(load_source(name), chat, tools=TOOLS))
            except TemplateRefused:
                found.append(
                    parse(load_source(name), [m for m in chat if m["role"] != "tool" and "tool_calls" not in m])
                )
            assert found[-1].messages  # reads all of it
        return found

    remembered = renderings()
    monkeypatch.setattr(Pieces, "like", lambda pieces, place: place)
    assert renderings() == remembered
