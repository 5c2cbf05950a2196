"""Answers read while they grow, by threads and by coroutines."""

from __future__ import annotations

import asyncio
import gc

import pytest

from runtime import ContextFull, Request
from runtime.report import Report

HELLO = [{"role": "user", "content": "Hello"}]
LONG = [{"role": "user", "content": "word " * 2000}]


def cancelled_by_now(made) -> bool:
    """Whether nothing is in flight; one answer of all 900 tokens would take several hundred turns."""
    return any(not made.scheduler.run(lambda: len(made.tree.jobs)) for _ in range(100))


def test_a_stream_gives_the_text_of_the_completion(engine):
    made = engine()
    whole = made.generate(Request(HELLO, max_tokens=30))
    stream = made.stream(Request(HELLO, max_tokens=30))
    with pytest.raises(RuntimeError, match="not been read to its end"):
        _ = stream.completion
    pieces = list(stream)
    assert all(pieces)
    assert len(pieces) > 10
    assert "".join(pieces) == stream.completion.output == whole.output
    assert isinstance(stream.completion.report, Report)
    assert list(stream) == []


def test_the_end_is_told_once(engine):
    ended = []
    stream = engine().stream(Request(HELLO, max_tokens=3), on_end=ended.append)
    for _ in range(2):
        list(stream)
    assert ended == [stream.completion]


def test_a_cancelled_stream_ends_where_it_is(engine):
    made = engine()
    stream = made.stream(Request(HELLO, max_tokens=900))
    first = next(stream)
    stream.cancel()
    text = first + "".join(stream)
    completion = stream.completion
    assert (completion.finish, completion.output) == ("cancelled", text)
    assert 0 < len(completion.output_ids) < 900


def test_a_stream_that_is_left_or_forgotten_cancels_its_request(engine):
    made = engine()
    with made.stream(Request(HELLO, max_tokens=900)) as stream:
        next(stream)
    assert cancelled_by_now(made)
    stream = made.stream(Request(HELLO, max_tokens=900))
    next(stream)
    del stream
    gc.collect()
    assert cancelled_by_now(made)


def test_what_a_request_fails_with_is_raised_to_the_reader(engine):
    stream = engine().stream(Request(LONG))
    for _ in range(2):
        with pytest.raises(ContextFull):
            next(stream)


def test_coroutines_get_the_same(engine):
    made = engine("hybrid")
    whole = made.generate(Request(HELLO, max_tokens=20))

    async def both():
        stream = made.astream(Request(HELLO, max_tokens=20))
        text = "".join([piece async for piece in stream])
        completion = await made.agenerate(Request(HELLO, max_tokens=20), logits=True)
        return text, stream.completion, completion

    text, streamed, completion = asyncio.run(both())
    assert text == streamed.output == whole.output == completion.output
    assert completion.logits is not None


def test_many_coroutines_are_served_at_once(engine):
    made = engine("hybrid", n_ctx=2048)
    texts = [f"Question {number}" for number in range(8)]

    async def ask(text):
        return await made.agenerate(Request([{"role": "user", "content": text}], max_tokens=5))

    async def all_of_them():
        return await asyncio.gather(*map(ask, texts))

    outputs = [completion.output for completion in asyncio.run(all_of_them())]
    assert outputs == [
        made.generate(Request([{"role": "user", "content": text}], max_tokens=5)).output for text in texts
    ]


def test_cancelling_a_task_cancels_its_request(engine):
    made = engine()

    async def give_up(coroutine):
        task = asyncio.create_task(coroutine)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def read():
        async for _ in made.astream(Request(HELLO, max_tokens=900)):
            pass

    for coroutine in (made.agenerate(Request(HELLO, max_tokens=900)), read()):
        asyncio.run(give_up(coroutine))
        assert cancelled_by_now(made)


def test_leaving_an_asynchronous_stream_cancels_its_request(engine):
    made = engine()

    async def read_one():
        async with made.astream(Request(HELLO, max_tokens=900)) as stream:
            async for _ in stream:
                break

    asyncio.run(read_one())
    assert cancelled_by_now(made)


def test_a_stream_that_is_cancelled_before_it_is_read_says_so(engine):
    made = engine()

    async def read():
        stream = made.astream(Request(HELLO, max_tokens=900))
        stream.cancel()
        return [text async for text in stream], stream.completion

    pieces, completion = asyncio.run(read())
    assert (pieces, completion.finish) == ([], "cancelled")


def test_a_coroutine_is_told_what_went_wrong(engine):
    made = engine()

    async def read():
        return [text async for text in made.astream(Request(LONG))]

    with pytest.raises(ContextFull):
        asyncio.run(read())
    with pytest.raises(ContextFull):
        asyncio.run(made.agenerate(Request(LONG)))
