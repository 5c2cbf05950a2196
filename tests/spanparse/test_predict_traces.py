"""Predictions held against what the next requests of real dialogues share.

The recorded dialogues hold neither reasoning nor tool schemas: every assistant message is given a seeded
`reasoning_content`, and the schemas are inferred from the calls. Tool call ids are cut to the nine characters that
Mistral's format has. One request for each assistant message; what really comes next decides which continuation has to
be right. `SPANPARSE_SWEEP=all` plays all dialogues instead of a fixed few (two to four minutes).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spanparse import TemplateRefused, load_source, predict, render_plain, request_of
from spanparse.rendering.environment import variables_read
from spanparse.shared import common_prefix
from spanparse.sources import TemplateSource, bundled_names

TRACE = Path(__file__).resolve().parents[3] / "shared" / "traces" / "tau-bench-airline-40.jsonl"
STRIDE = 1 if os.environ.get("SPANPARSE_SWEEP") == "all" else 10

SWITCHES = ("enable_thinking", "preserve_thinking", "thinking", "tools_in_user_message")
TEXTS = {"reasoning_effort": ("low", "high"), "model_identity": ("You are Bo.",), "date_string": ("1 Feb 2026",)}
JSON_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
WORDS = ["check", "the", "policy", "first", "then", "ask", "which", "card", "pays", "for", "both", "bags"]

Message = dict[str, Any]


class Dialogue(NamedTuple):
    messages: list[Message]
    tools: list[dict[str, Any]]


def dialogues() -> list[Dialogue]:
    if not TRACE.exists():
        pytest.skip(f"the recorded dialogues are missing: shared/traces/{TRACE.name} beside the repository")
    return recorded()


@cache
def recorded() -> list[Dialogue]:
    lines = TRACE.read_text("utf-8").splitlines()
    return [_dialogue(json.loads(line)["messages"], number) for number, line in enumerate(lines)][::STRIDE]


def _dialogue(recorded: list[Message], seed: int) -> Dialogue:
    words = random.Random(seed)
    messages: list[Message] = []
    fields: dict[str, dict[str, Any]] = {}
    for message in json.loads(json.dumps(recorded)):
        if message["role"] == "assistant":
            message["reasoning_content"] = " ".join(words.choices(WORDS, k=words.randint(5, 60))) + "."
        for call in message.get("tool_calls") or []:
            call["id"] = call["id"][-9:]
            arguments = json.loads(call["function"]["arguments"])
            call["function"]["arguments"] = arguments
            schema = fields.setdefault(call["function"]["name"], {})
            schema.update((name, {"type": JSON_TYPES[type(value)]}) for name, value in arguments.items())
        if "tool_call_id" in message:
            message["tool_call_id"] = message["tool_call_id"][-9:]
        messages.append(message)
    return Dialogue(messages, [_tool(name, properties) for name, properties in fields.items()])


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


def settings(template: TemplateSource) -> list[dict[str, Any]]:
    """Every value of every variable that the template reads, one at a time, and all switches on or off together."""
    read = variables_read(template.text, template.source)
    switches = [name for name in SWITCHES if name in read]
    single: list[dict[str, Any]] = [{name: value} for name in switches for value in (True, False)]
    single += [{name: value} for name in TEXTS if name in read for value in TEXTS[name]]
    together = [dict.fromkeys(switches, value) for value in (True, False)] if len(switches) > 1 else []
    return [{}, *single, *together]


def turns(dialogue: Dialogue) -> Iterator[tuple[list[Message], list[Message], str]]:
    """Each request but the last: its messages, those of the next request, and the continuation that this is."""
    asked = [i for i, message in enumerate(dialogue.messages) if message["role"] == "assistant"]
    for now, following in pairwise(asked):
        name = "tool_call" if dialogue.messages[following - 1]["role"] == "tool" else "user_message"
        yield dialogue.messages[:now], dialogue.messages[:following], name


@pytest.mark.parametrize("name", bundled_names())
def test_the_predicted_prefix_is_what_the_next_request_of_a_dialogue_shares(name: str) -> None:
    template = load_source(name)
    right, wrong = 0, []
    for dialogue in dialogues():
        for kwargs in settings(template):
            for messages, following, continuation in turns(dialogue):
                request = request_of(template, messages, tools=dialogue.tools or None, kwargs=kwargs)
                after = request_of(template, following, tools=dialogue.tools or None, kwargs=kwargs)
                try:
                    now = render_plain(template.text, request)
                except TemplateRefused:
                    continue
                found = predict(
                    template, messages, tools=dialogue.tools or None, kwargs=kwargs, remedies=False
                ).continuations
                kept = next(outcome.kept_chars for outcome in found if outcome.name == continuation)
                try:
                    shared = common_prefix(now, render_plain(template.text, after))
                except TemplateRefused:
                    shared = None
                if kept == shared:
                    right += 1
                else:
                    wrong.append((kwargs, len(messages), continuation, kept, shared))
    assert right
    assert len(wrong) <= 0.01 * (right + len(wrong)), wrong


def test_the_variables_of_every_bundled_template_are_tried() -> None:
    given = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}
    # Names that a template sets in some branch before it reads them.
    own = {"reasoning", "text", "system", "analysis", "is_tip", "item", "content"}
    for name in bundled_names():
        template = load_source(name)
        assert variables_read(template.text, name) - given - own <= {*SWITCHES, *TEXTS}
