"""A grown conversation finds its earlier rendering, and is rendered as if it had not."""

from __future__ import annotations

import pytest

import spanparse
from runtime import Request
from runtime.renders import Rendered, Renders, digests
from runtime.tiny import ensure_model
from spanparse.tokens import load_backend, token_map

CHAT = [{"role": ("user", "assistant")[i % 2], "content": f"This is message {i}."} for i in range(9)]


@pytest.fixture(scope="module")
def rendered():
    template, backend = spanparse.load_source("chatml"), load_backend(str(ensure_model("hybrid")))

    def make(messages, setting=None):
        rendering = spanparse.parse(template, messages)
        return Rendered(setting, digests(messages), token_map(rendering, backend, template=template.text))

    return make


def found(kept, setting, messages):
    with kept.nearest(setting, digests(messages)) as rendered:
        return rendered


def test_of_several_the_one_that_shares_most_messages_is_found(rendered):
    kept = Renders(10_000)
    short, other = rendered(CHAT[:3]), rendered([*CHAT[:2], {"role": "user", "content": "Else."}])
    for one in (short, other):
        kept.put(one)
    assert found(kept, None, CHAT[:5]) is short
    # The one used last.
    assert found(kept, None, CHAT[:2]) is short
    with kept.nearest(None, digests(CHAT[:5])) as first, kept.nearest(None, digests(CHAT[:5])) as second:
        assert (first, second) == (short, other)
        assert found(kept, None, CHAT[:5]) is None


def test_what_is_rendered_in_another_way_is_not_found(rendered):
    kept = Renders(10_000)
    kept.put(rendered(CHAT[:3], setting="tools"))
    assert found(kept, "others", CHAT) is None
    assert found(kept, "tools", CHAT[1:]) is None
    assert found(kept, "tools", CHAT) is not None


def test_a_message_changed_in_place_is_another_message(rendered):
    kept, messages = Renders(10_000), [dict(message) for message in CHAT[:3]]
    kept.put(rendered(messages))
    messages[0]["content"] = "Changed."
    assert found(kept, None, messages) is None


def test_a_grown_conversation_takes_the_place_of_its_beginning(rendered):
    kept = Renders(10_000)
    for n in (3, 5, 7):
        kept.put(rendered(CHAT[:n]))
    with kept.nearest(None, digests(CHAT)) as longest:
        assert longest.messages == digests(CHAT[:7])
        assert found(kept, None, CHAT) is None


def test_the_tokens_that_are_kept_are_bounded(rendered):
    chats = [[{"role": "user", "content": f"Number {i}"}, *CHAT[1:5]] for i in range(4)]
    made = [rendered(chat) for chat in chats]
    kept = Renders(2 * made[0].tokens.count)
    for one in made:
        kept.put(one)
    assert [found(kept, None, chat) for chat in chats] == [None, None, made[2], made[3]]
    kept = Renders(1)
    kept.put(made[0])
    assert found(kept, None, chats[0]) is made[0]


def test_a_conversation_that_grows_branches_and_is_edited_has_the_prompts_of_one_that_does_not(engine):
    """What is taken over changes neither tokens nor plans, whichever of the earlier renderings it comes from."""
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    edited = [*CHAT[:4], {"role": "user", "content": "Edited."}]
    asked = [Request(messages, max_tokens=1) for messages in (CHAT[:1], CHAT[:3], CHAT[:7], edited, CHAT, CHAT[1:8])]
    asked += [Request(CHAT[:n], tools=tools, max_tokens=1) for n in (1, 3)]
    asked += [Request(CHAT[:n], kwargs={"enable_thinking": False}, max_tokens=1) for n in (3, 5)]
    made = engine(checkpoints=4)
    for request in asked:
        fresh, _ = engine(checkpoints=4)._prompt(request)
        prompt, _ = made._prompt(request)
        assert (prompt.tokens.tolist(), prompt.candidates) == (fresh.tokens.tolist(), fresh.candidates)
        assert [prompt.where(token) for token in range(prompt.tokens.size)] == [
            fresh.where(token) for token in range(prompt.tokens.size)
        ]
