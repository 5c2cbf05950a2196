"""A chat with its history."""

from __future__ import annotations

import asyncio

import pytest

from runtime import RequestError, Sampling, Session
from spanparse import TemplateRefused, load_source

HELLO = {"role": "user", "content": "Hello"}
SYSTEM = {"role": "system", "content": "You answer briefly."}


def roles(session):
    return [message["role"] for message in session.messages]


def test_what_was_said_stays_said(engine):
    session = Session(engine(), (SYSTEM,), max_tokens=4)
    first = session.say("Hello")
    assert session.messages == (SYSTEM, HELLO, {"role": "assistant", "content": first.output})
    second = session.say("And now?")
    assert roles(session) == ["system", "user", "assistant", "user", "assistant"]
    assert second.report.reused > 0


def test_tools_and_template_variables_reach_the_template(engine):
    tools = [{"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}]
    made = engine(n_ctx=2048)
    plain = Session(made, max_tokens=1).say("Hello").report.prompt_tokens
    with_tools = Session(made, tools=tools, max_tokens=1).say("Hello").report.prompt_tokens
    thinking = Session(made, kwargs={"enable_thinking": True}, max_tokens=1).say("Hello")
    other = Session(made, kwargs={"enable_thinking": False}, max_tokens=1).say("Hello")
    assert with_tools > plain
    assert thinking.token_ids != other.token_ids


def test_a_streamed_turn_is_history_once_it_has_been_read(engine):
    session = Session(engine(), max_tokens=6)
    stream = session.stream(HELLO)
    next(stream)
    assert session.messages == ()
    list(stream)
    assert session.messages == (HELLO, {"role": "assistant", "content": stream.completion.output})


def test_a_coroutine_can_talk_too(engine):
    session = Session(engine(), max_tokens=4)

    async def talk():
        await session.asay("Hello")
        return [text async for text in session.astream({"role": "user", "content": "And now?"})]

    assert "".join(asyncio.run(talk())) == session.messages[-1]["content"]
    assert roles(session) == ["user", "assistant"] * 2


@pytest.mark.parametrize("keep", [False, True])
def test_a_cancelled_turn_leaves_no_trace_unless_asked_to(engine, keep):
    session = Session(engine(), max_tokens=900, keep_partial=keep)
    stream = session.stream(HELLO)
    next(stream)
    stream.cancel()
    list(stream)
    answer = {"role": "assistant", "content": stream.completion.output}
    assert session.messages == ((HELLO, answer) if keep else ())


def test_a_turn_cancelled_before_its_first_word_is_not_kept(engine):
    session = Session(engine(n_ctx=4096), keep_partial=True)
    stream = session.stream({"role": "user", "content": "word " * 1500})
    stream.cancel()
    assert list(stream) == []
    assert session.messages == ()


def test_a_failed_turn_leaves_the_history_as_it_was(engine):
    session = Session(engine(template=load_source("gemma3")), max_tokens=2)
    session.say("Hello")
    before = session.messages
    with pytest.raises(TemplateRefused):
        session.send(HELLO, HELLO)
    assert session.messages is before


def test_another_answer_takes_the_place_of_the_last(engine):
    session = Session(engine(), max_tokens=8, sampling=Sampling(temperature=2.0))
    first = session.say("Hello")
    assert session.regenerate().output == first.output
    session.sampling = Sampling(temperature=2.0, seed=1)
    other = session.regenerate()
    assert other.output != first.output
    assert session.messages == (HELLO, {"role": "assistant", "content": other.output})


def test_an_edited_message_is_answered_anew(engine):
    session = Session(engine(), (SYSTEM,), max_tokens=3)
    session.say("Hello")
    session.say("And now?")
    session.edit(1, "Good morning")
    assert [message["content"] for message in session.messages[:2]] == [SYSTEM["content"], "Good morning"]
    assert roles(session) == ["system", "user", "assistant"]
    with pytest.raises(RequestError, match="there is no message 7, only 3"):
        session.edit(7, "Hello")


def test_what_the_user_said_last_can_be_taken_back(engine):
    session = Session(engine(), (SYSTEM,), max_tokens=3)
    session.say("Hello")
    after_one = session.messages
    session.say("And now?")
    session.undo()
    assert session.messages == after_one
    session.undo()
    assert session.messages == (SYSTEM,)
    with pytest.raises(RequestError, match="has not said anything"):
        session.undo()
    with pytest.raises(RequestError, match="no answer yet"):
        session.regenerate()


def test_a_copy_goes_its_own_way_and_shares_what_is_in_the_memory(engine):
    session = Session(engine(), max_tokens=3)
    session.say("Hello, when does the last boat to the island leave tonight?")
    branch = session.copy()
    session.say("And on Sunday?")
    assert branch.say("And tomorrow?").report.reused > 0
    assert session.messages[:2] == branch.messages[:2]
    assert session.messages[2:] != branch.messages[2:]


def test_one_turn_at_a_time(engine):
    session = Session(engine(), max_tokens=3)
    stream = session.stream(HELLO)
    session.say("Me first")
    with pytest.raises(RequestError, match="was changed while this answer was generated"):
        list(stream)
    assert session.messages[0]["content"] == "Me first"
