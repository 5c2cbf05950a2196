"""Conversations drawn at random: roles, fields, empty texts and tools in any order that a client may send."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from tests.audit.literals import control_tokens, phrase
from tests.audit.shapes import building as make
from tests.audit.shapes.building import Conversation, Message, Tool
from tests.audit.vocabulary import Words

_PREFIX: Final = "random "
_MESSAGES: Final = 9


def drawn_shapes(seed: int, count: int) -> tuple[str, ...]:
    """The names of `count` random shapes."""
    return tuple(f"{_PREFIX}{seed}.{number}" for number in range(count))


def is_drawn(shape: str) -> bool:
    """Whether a shape is a random one."""
    return shape.startswith(_PREFIX)


def drawn_conversation(shape: str, template: str) -> Conversation:
    """The conversation of a random shape: the same for the same name and template."""
    return _Drawing(random.Random(f"{shape} {template}"), template).conversation()


class _Drawing:
    """Draws one conversation."""

    def __init__(self, chance: random.Random, template: str) -> None:
        self._chance = chance
        self._words = Words()
        self._tokens = control_tokens(template) or ("<|im_end|>",)
        self._phrase = phrase(template)
        self._tools: list[Tool] = []
        # Most clients write each kind of text in one way.
        self._odd = chance.choice((0.0, 0.1, 0.4))
        self._thinks = chance.choice((0.0, 0.0, 0.5, 1.0))
        self._lists = chance.choice((0.0, 0.0, 0.3, 1.0))
        self._calls = chance.choice((0.0, 0.5, 0.9))

    def conversation(self) -> Conversation:
        chance = self._chance
        messages: list[Message] = []
        for _ in range(chance.choice((0, 1, 1, 2))):
            messages.append(make.message(chance.choice(("system", "system", "developer")), self._content()))
        while len(messages) < chance.randint(1, _MESSAGES):
            messages.append(make.message("user", self._content()))
            if chance.random() < 0.1:
                messages.append(make.message(chance.choice(("user", "system", "assistant")), self._content()))
            while chance.random() < self._calls and len(messages) < _MESSAGES:
                messages += self._round()
            if chance.random() < 0.7:
                messages.append(self._answer())
        if chance.random() < 0.3:
            self._tools.append(make.tool(self._words, self._words.one(), {self._words.one(): {"type": "string"}}))
        return Conversation(messages, self._tools if self._tools and chance.random() < 0.9 else None)

    def _text(self) -> str:
        w, chance = self._words, self._chance
        if chance.random() >= self._odd:
            return w.text(chance.randint(1, 4))
        token = chance.choice(self._tokens)
        return chance.choice(
            (
                "",
                "",
                " ",
                "\n\n",
                f"\n{w.text()} \n",
                f"{w.one()}{token}{w.one()}",
                f"{token}{w.one()}",
                f"{w.one()} {self._phrase}\n{w.one()}",
                f"<think>\n{w.text()}\n</think>\n\n{w.text()}",
                f"{w.one()}</think>{w.one()}",
                f"😀e\u0301{w.one()}\u202e",
                f"{w.one()}\r\n\t{w.one()}\n",
            )
        )

    def _content(self) -> str | list[dict[str, Any]]:
        if self._chance.random() >= self._lists:
            return self._text()
        return [{"type": "text", "text": self._text()} for _ in range(self._chance.choice((1, 1, 2, 3)))]

    def _reasoning(self) -> dict[str, str]:
        return {"reasoning_content": self._text()} if self._chance.random() < self._thinks else {}

    def _answer(self) -> Message:
        return make.message("assistant", self._content(), **self._reasoning())

    def _round(self) -> list[Message]:
        w, chance = self._words, self._chance
        calls = []
        for number in range(chance.choice((1, 1, 1, 2, 3))):
            arguments: dict[str, Any] = {w.one(): self._text() for _ in range(chance.randint(0, 2))}
            if chance.random() < 0.2:
                arguments[w.one()] = chance.choice((1, True, None, [w.one()], {w.one(): w.one()}))
            call = make.call(w, number, arguments=arguments)
            self._tools.append(make.schema(w, call))
            if chance.random() < 0.1:
                call["function"]["arguments"] = json.dumps(arguments)
            calls.append(call)
        said = chance.choice((self._text(), "", None))
        results = [make.result(w, call, self._content()) for call in calls]
        if chance.random() < 0.2:
            chance.shuffle(results)
        return [make.calling(w, calls, said, **self._reasoning()), *results]
