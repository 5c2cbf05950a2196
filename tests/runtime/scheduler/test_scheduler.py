"""Several requests at once: who waits for whom, what fails with whom, and how it ends."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from runtime import DeadEnd, DecodeError, EngineClosed, Request, RequestError, Sampling, Verifier
from runtime.llama import Context
from runtime.scheduler import call as calls
from runtime.tiny import ensure_model
from runtime.tree.tree import Tree


def asks(text, max_tokens=8, **options):
    return Request([{"role": "user", "content": text}], max_tokens=max_tokens, **options)


def long_text(words, seed=0):
    return " ".join(f"word {seed + number}" for number in range(words))


def read(streams):
    """Read all of them at once; their completions."""
    with ThreadPoolExecutor(len(streams)) as pool:
        list(pool.map(list, streams))
    return [stream.completion for stream in streams]


def agrees(verdict, kind):
    """As a cold run; rounding may choose between two tokens as likely as each other."""
    tolerance = 0.05 if kind == "swa" else 1e-3
    near = verdict.gap is not None and verdict.gap < tolerance
    return (verdict.identical or near) and (verdict.logit_error is None or verdict.logit_error < tolerance)


def test_a_long_prompt_never_keeps_a_stream_waiting_longer_than_a_micro_batch(engine, held, decodes, kind):
    made = engine(kind, n_ctx=8192)
    with held(made):
        stream = made.stream(asks("Hello", 50))
        prompt = made.stream(asks(long_text(1100), 1))
    answer, other = read([stream, prompt])
    assert len(answer.output_ids) == 50
    assert other.report.prompt_tokens > 3000
    # The stream's sequence is the one that has decodes of a single token.
    one = next(sequence for decode in decodes for sequence, size in decode.items() if size == 1)
    at = [index for index, decode in enumerate(decodes) if decode.get(one) == 1]
    assert len(at) == 49
    foreign = [
        sum(sum(decode.values()) - decode.get(one, 0) for decode in decodes[before + 1 : after + 1])
        for before, after in pairwise(at)
    ]
    assert max(foreign) <= made.options.n_ubatch
    # Nor does the stream keep the prompt waiting: it gets all that is left of every turn.
    assert sum(foreign) + made.options.n_ubatch >= min(3000, 48 * (made.options.n_ubatch - 1))


def test_a_prompt_alone_is_evaluated_in_whole_batches_and_one_that_may_be_cancelled_in_micro_batches(engine, decodes):
    made = engine("dense", n_ctx=2048)
    made.generate(asks(long_text(200), 1))
    assert max(map(max, (decode.values() for decode in decodes))) == made.options.n_batch
    decodes.clear()
    list(made.stream(asks(long_text(200, 5000), 1)))
    assert max(map(max, (decode.values() for decode in decodes))) == made.options.n_ubatch


def test_requests_at_once_answer_as_each_alone(engine, held, kind):
    made = engine(kind, n_ctx=4096, parallel=3)
    shared = long_text(40)
    requests = [asks(f"{shared} {long_text(30 * number, 1000 * number)}", 12) for number in range(6)]
    with ThreadPoolExecutor(6) as pool, Verifier(made) as verifier:
        with held(made):
            futures = [pool.submit(made.generate, request, logits=True) for request in requests]
        for future in futures:
            assert agrees(verifier.check(future.result()), kind)
    made.check_integrity()


def test_no_more_than_parallel_are_in_flight_and_the_others_wait_their_turn(engine, held, decodes):
    made = engine("dense", parallel=2)
    ended = []
    with held(made):
        streams = [made.stream(asks(f"Hello {number}", 5), on_end=ended.append) for number in range(5)]
    completions = read(streams)
    assert max(map(len, decodes)) == 2
    assert sorted(map(id, ended)) == sorted(map(id, completions))


def test_while_a_stream_waits_for_its_token_no_more_than_one_request_begins(engine, held, monkeypatch):
    made = engine("dense", n_ctx=4096)
    stream = made.stream(asks("Hello", 900))
    next(stream)
    decode, in_flight = Context.decode, []

    def counted(self, *stretches):
        in_flight.append(len(made.tree.jobs))
        return decode(self, *stretches)

    monkeypatch.setattr(Context, "decode", counted)
    with held(made):
        others = [made.stream(asks(f"Hello {number}", 20)) for number in range(3)]
    read(others)
    stream.cancel()
    assert max(in_flight) == 4
    assert max(later - before for before, later in pairwise(in_flight)) == 1


def test_a_request_that_others_leave_no_room_waits_until_they_end(engine, held):
    made = engine("hybrid", n_ctx=512, parallel=4)
    with held(made):
        streams = [made.stream(asks(long_text(50, 100 * number), 100)) for number in range(4)]
    completions = read(streams)
    assert [len(completion.output_ids) for completion in completions] == [100] * 4
    made.check_integrity()


def test_an_answer_that_its_grammar_leaves_no_token_for_leaves_the_others_alone(engine, held):
    made = engine("hybrid")
    alone = made.generate(asks("Hello", 12)).output_ids
    # Every token that could go on after the grammar is forbidden.
    never = tuple((token, float("-inf")) for token in range(made.model.n_vocab) if b"7" in made.model.piece(token))
    with held(made):
        good = made.stream(asks("Hello", 12))
        bad = made.stream(asks("Bye", 12, sampling=Sampling(grammar='root ::= "7"', logit_bias=never)))
    with pytest.raises(DeadEnd):
        list(bad)
    list(good)
    assert good.completion.output_ids == alone
    made.check_integrity()


def fail_with(monkeypatch, fails):
    """Let llama.cpp evaluate a batch of which `fails` says so, and then report that it was aborted."""
    decode = Context.decode

    def broken(self, *stretches):
        rows = decode(self, *stretches)
        if fails(stretches):
            raise DecodeError(2, "tokens")
        return rows

    monkeypatch.setattr(Context, "decode", broken)


def test_after_a_shared_decode_failed_all_go_on_from_their_last_known_state(engine, held, kind, monkeypatch):
    made = engine(kind)
    failures = iter([True])
    fail_with(monkeypatch, lambda stretches: len(stretches) == 3 and next(failures, False))
    with held(made):
        streams = [made.stream(asks(f"Hello {number}", 10)) for number in range(3)]
    completions = read(streams)
    assert next(failures, None) is None
    with Verifier(made) as verifier:
        for completion in completions:
            assert agrees(verifier.check(completion), kind)
    made.check_integrity()


def test_a_request_whose_decode_fails_alone_too_is_the_only_one_to_end(engine, held, monkeypatch):
    made = engine("hybrid")
    sequences = []

    def fails(stretches):
        # Whoever has the most tokens in the first shared decode is the one that cannot be evaluated.
        if not sequences and len(stretches) == 2:
            sequences.append(max(stretches, key=lambda stretch: stretch.tokens.size).sequence)
        return any(stretch.sequence in sequences for stretch in stretches)

    fail_with(monkeypatch, fails)
    with held(made):
        good = made.stream(asks("Hello", 10))
        bad = made.stream(asks(long_text(20), 10))
    with pytest.raises(DecodeError):
        list(bad)
    assert len(list(good)) > 0
    assert len(good.completion.output_ids) == 10
    made.check_integrity()


def test_a_cancelled_prefill_is_kept_and_the_next_try_goes_on_there(engine, held, kind, decodes):
    made = engine(kind, n_ctx=4096)
    request = asks(long_text(300), 4)
    with held(made):
        stream = made.stream(request)
        other = made.stream(asks("Hello", 3))
    list(other)
    stream.cancel()
    list(stream)
    done = stream.completion.report.evaluated
    assert stream.completion.finish == "cancelled"
    assert 0 < done < stream.completion.report.prompt_tokens
    made.generate(asks("Something else", 4))
    with Verifier(made) as verifier:
        again = made.generate(request, logits=True)
        assert agrees(verifier.check(again), kind)
    assert again.report.reused >= done - 1
    made.check_integrity()


def test_a_prompt_that_times_out_again_and_again_comes_to_its_end(engine, kind, monkeypatch):
    made = engine(kind, n_ctx=4096)
    decode, seconds = Context.decode, [0.0]

    def slow(self, *stretches):
        seconds[0] += sum(stretch.tokens.size for stretch in stretches) / 1000
        return decode(self, *stretches)

    monkeypatch.setattr(Context, "decode", slow)
    monkeypatch.setattr(calls, "monotonic", lambda: seconds[0])
    reports = []
    for _ in range(10):
        completion = made.generate(asks(long_text(250), 1, timeout=0.5))
        reports.append(completion.report)
        if completion.finish != "cancelled":
            break
    assert completion.finish == "length"
    # Half a second is 500 tokens, and the micro-batch in which it ends.
    assert all(500 <= report.evaluated <= 500 + made.options.n_ubatch for report in reports[:-1])
    assert all(later.reused == first.reused + first.evaluated for first, later in pairwise(reports))
    assert len(reports) == 3


def test_with_a_timeout_states_are_saved_on_the_way(engine, monkeypatch):
    monkeypatch.setattr(calls, "monotonic", lambda: 0.0)

    def saves(timeout):
        """Of an engine that has measured nothing yet: 1,000 seconds are 500,000 tokens, one second is 500."""
        made = engine("hybrid", n_ctx=4096, checkpoints=3)
        return made.generate(asks(long_text(250), 1, timeout=timeout)).report.saves

    assert saves(1) > saves(1000) + 4


def test_a_request_whose_time_is_up_before_its_turn_comes_was_never_begun(engine, held):
    made = engine("dense")
    with ThreadPoolExecutor(1) as pool, held(made):
        late = pool.submit(made.generate, asks("Hello", timeout=0.001))
        threading.Event().wait(0.05)
    report = late.result().report
    assert (late.result().finish, report.evaluated, report.excess) == ("cancelled", 0, ())
    assert report.ideal == report.prompt_tokens


def test_a_reader_that_stops_reading_cancels_its_request(engine, monkeypatch):
    monkeypatch.setattr(calls, "MOST_UNREAD", 20)
    made = engine("dense")
    stream = made.stream(asks("Hello", 500))
    made.generate(asks("Bye", 200))
    text = "".join(stream)
    assert stream.completion.finish == "cancelled"
    assert stream.completion.output == text
    assert 20 < len(stream.completion.output_ids) < 100


def test_eight_threads_on_one_engine_get_the_answers_of_one_after_another(engine):
    made = engine("hybrid", n_ctx=4096)
    requests = [asks(f"{long_text(20)} {number}", 6) for number in range(8)]
    with ThreadPoolExecutor(8) as pool, Verifier(made) as verifier:
        for completion in pool.map(made.generate, requests * 3):
            assert verifier.check(completion).identical
    made.check_integrity()


def test_closing_ends_what_is_in_flight_and_what_waits(engine, held):
    made = engine("hybrid", parallel=1)
    streams = [made.stream(asks(f"Hello {number}", 500)) for number in range(3)]
    next(streams[0])
    made.close()
    for stream in streams:
        with pytest.raises(EngineClosed, match="the engine is closed"):
            list(stream)
    with pytest.raises(EngineClosed):
        made.generate(asks("Hello"))
    assert not any(thread.name == "spanparse-scheduler" for thread in threading.enumerate())


def test_when_the_thread_ends_before_its_time_nobody_waits_for_ever(engine, held, monkeypatch):
    made = engine("hybrid", parallel=1)

    def over(self, *stretches):
        raise SystemExit

    monkeypatch.setattr(Context, "decode", over)
    with held(made):
        streams = [made.stream(asks(f"Hello {number}")) for number in range(2)]
    for stream in streams:
        with pytest.raises(EngineClosed):
            list(stream)
    with pytest.raises(EngineClosed):
        made.generate(asks("Hello"))


def broken(*args):
    raise ZeroDivisionError("books")


@pytest.mark.parametrize(
    "bad",
    [
        {"sampling": None},
        {"kwargs": {1: 2}},
        {"max_tokens": None},
        {"max_tokens": 1.5},
        {"max_tokens": -1},
    ],
    ids=repr,
)
def test_a_request_that_says_nonsense_fails_alone(engine, held, bad):
    made = engine("hybrid")
    with ThreadPoolExecutor(1) as pool, held(made):
        stream = made.stream(asks("Hello"))
        wrong = pool.submit(made.generate, asks("Hi", **bad))
    with pytest.raises(RequestError):
        wrong.result()
    assert len(list(stream)) > 0
    made.check_integrity()


def test_an_error_that_nobody_foresaw_before_a_request_begins_ends_the_engine_and_is_named(engine, monkeypatch, caplog):
    made = engine("hybrid")
    monkeypatch.setattr(Tree, "_observe", broken)
    for _ in range(2):
        with pytest.raises(EngineClosed, match="ZeroDivisionError, which nobody foresaw, has ended it: books"):
            made.generate(asks("Hello"))
    assert [(r.getMessage(), r.exc_info[0]) for r in caplog.records if r.levelname == "CRITICAL"] == [
        ("the engine is closed", ZeroDivisionError)
    ]
    made.close()


def test_an_error_that_nobody_foresaw_after_an_answer_does_not_cost_the_answer(engine, held, monkeypatch):
    made = engine("hybrid", parallel=1)
    monkeypatch.setattr(Tree, "put_away", broken)
    with held(made):
        streams = [made.stream(asks("Hello", 3)) for _ in range(2)]
    assert list(streams[0])
    with pytest.raises(EngineClosed, match="books") as closed:
        list(streams[1])
    assert isinstance(closed.value.cause, ZeroDivisionError)


def test_a_reset_comes_after_what_was_asked_before(engine, held):
    made = engine("hybrid")
    made.generate(asks("Hello", 4))
    with ThreadPoolExecutor(1) as pool, held(made):
        stream = made.stream(asks("Hello", 30))
        done = pool.submit(made.reset)
    assert len(list(stream)) > 0
    assert stream.completion.report.ideal == 1
    done.result()
    assert made.generate(asks("Hello", 4)).report.ideal == stream.completion.report.prompt_tokens


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the kernel does not tell how much memory is used")
def test_engines_that_were_closed_leave_no_memory_behind(engine, capsys):
    ensure_model("hybrid")

    def once():
        made = engine("hybrid")
        made.generate(asks("Hello", 4))
        list(made.stream(asks("Hello again", 4)))
        made.close()

    for _ in range(10):
        once()
    gc.collect()
    before = resident_bytes()
    for _ in range(30):
        once()
    gc.collect()
    drift = resident_bytes() - before
    with capsys.disabled():
        print(f"\n30 engines opened and closed: {drift / 1e6:+.2f} MB on {before / 1e6:.0f} MB")  # noqa: T201
    # One model alone has two megabytes, its context more.
    assert drift < 30 * 1e6
