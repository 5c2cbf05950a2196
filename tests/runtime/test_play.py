"""Playing request files: one report a line, whatever happens."""

from __future__ import annotations

import json

from runtime import Request, Verifier
from runtime.play import play

REPORT = {
    "prompt_tokens",
    "restored",
    "evaluated",
    "reused",
    "ideal",
    "excess",
    "breaks",
    "saves",
    "bytes",
    "seconds",
}


def ask(*texts, **options):
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return Request(messages, max_tokens=4, **options)


def test_a_line_holds_the_report_and_the_answer(engine):
    (line,) = play(engine(), [ask("Hello", id="a")])
    assert line.keys() == {"schema_version", "id", "output", "finish"} | REPORT
    assert (line["schema_version"], line["id"], line["finish"]) == (1, "a", "length")
    assert json.loads(json.dumps(line)) == line


def test_requests_are_played_on_one_engine(engine):
    first, second = play(engine("dense"), [ask("Hello", id="a"), ask("Hello", "Hi", "Again", id="b")])
    assert second["restored"]["from"] == "live"
    assert second["evaluated"] < second["prompt_tokens"]
    assert first["ideal"] == first["evaluated"] == first["prompt_tokens"]


def test_a_line_is_there_as_soon_as_its_request_is_done(engine):
    def requests():
        yield ask("Hello", id="a")
        raise AssertionError("asked for the next request too early")

    assert next(play(engine(), requests()))["id"] == "a"


def test_the_prompts_token_ids_are_there_if_asked_for(engine):
    (line,) = play(engine(), [ask("Hello")], token_ids=True)
    assert len(line["token_ids"]) == line["prompt_tokens"]


def test_a_request_that_fails_has_its_own_line_and_the_next_one_is_played(engine):
    refused, good = play(engine(), [ask("long " * 3000, id="a"), ask("Hello", id="b")])
    assert refused["finish"] == "error"
    assert refused["error"].startswith("messages: the prompt has ")
    assert all(refused[key] is None for key in REPORT | {"output"})
    assert (good["id"], good["finish"]) == ("b", "length")


def test_answers_are_compared_with_a_cold_run_if_asked_for(engine):
    made = engine("hybrid")
    requests = [ask("Hello"), ask("Hello", "Hi", "Go on"), ask("Hello", cancel_after_tokens=1)]
    with Verifier(made) as verifier:
        lines = list(play(made, requests, verifier=verifier))
    assert [line["verify"]["identical"] for line in lines] == [True] * 3
