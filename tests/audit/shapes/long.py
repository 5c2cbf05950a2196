"""The shape that is too long for every template: an agent's conversation of 500 messages and 200,000 tokens."""

from __future__ import annotations

from typing import Final

from tests.audit.shapes import building as make
from tests.audit.shapes.building import Conversation, Message
from tests.audit.vocabulary import Words

LONG: Final = "500 messages"
_WORDS: Final = 104
_ROUND: Final = 10


def long_conversation(messages: int = 500) -> Conversation:
    """Rounds of one user message, four calls with results and reasoning, and an answer.

    A word of ours is four to five tokens of a byte-level BPE.
    """
    w = Words()
    first = make.call(w)
    tools = [make.schema(w, first)]
    items: list[Message] = [make.system(w)]
    while len(items) < messages:
        place = len(items) % _ROUND
        if place == 1:
            items.append(make.message("user", w.text(_WORDS)))
        elif place == 0:
            items.append(make.assistant(w, reasoning_content=w.text(_WORDS)))
        elif place % 2 == 0:
            made = make.call(w, place, arguments={key: w.text(_WORDS // 2) for key in first["function"]["arguments"]})
            made["function"]["name"] = first["function"]["name"]
            items += [
                make.calling(w, [made], reasoning_content=w.text(_WORDS // 2)),
                make.result(w, made, w.text(_WORDS)),
            ]
    return Conversation(items[:messages], tools)
