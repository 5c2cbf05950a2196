"""Whatever images several chats show one engine, in whatever order, each prompt is answered as if it were the first.

SPANPARSE_FUZZ=20 plays twenty times as many sequences of requests, chosen anew each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.desk import Desk, Messages, assistant, image, open_desk, user
from tests.fuzz.profile import cases

from runtime.tiny import ensure_model

MOST_MESSAGES = 7


class Turn(NamedTuple):
    """What is said in a chat: words, an image if it has a number, and after how many tokens the client hangs up."""

    chat: int
    words: str
    image: int | None
    cancel: int | None


# Images of one size, which nothing but their content tells apart.
turns = st.builds(
    Turn,
    st.integers(0, 2),
    st.sampled_from(["What is it?", "And the boat?", "Where does it leave, and when?", "Go on."]),
    st.none() | st.integers(0, 2),
    st.none() | st.integers(1, 120),
)


# The memory is too small for three chats.
@pytest.fixture(
    scope="module", params=[("hybrid", 3), ("swa", 2), ("recurrent", 2), ("mrope", 0)], ids=lambda kind: kind[0]
)
def desk(request: pytest.FixtureRequest, mrope_model: Path) -> Iterator[Desk]:
    kind, checkpoints = request.param
    path = mrope_model if kind == "mrope" else ensure_model(kind)
    projector, template = ("gemma3", "gemma3") if kind in ("swa", "recurrent") else ("qwen3vl", "chatml")
    options = {"n_ctx": 640, "n_ubatch": 64, "checkpoints": checkpoints}
    yield from open_desk(pytest.MonkeyPatch(), path, projector, template, **options)


@cases(12)
@given(st.lists(turns, min_size=4, max_size=16))
def test_chats_are_answered_as_from_nothing(desk: Desk, said: list[Turn]) -> None:
    desk.engine.reset()
    chats: list[Messages] = [[], [], []]
    for turn in said:
        chat = chats[turn.chat]
        if len(chat) >= MOST_MESSAGES:
            del chat[2:]
        shown = [] if turn.image is None else [image(turn.image, 160, 100), "This."]
        chat.append(user(turn.words, *shown))
        completion = desk.ask(chat, cancel_after_tokens=turn.cancel)
        if completion.finish == "cancelled":
            chat.pop()
        else:
            chat.append(assistant(completion.output))
