"""Playing request files: one report a line, whatever happens."""

from __future__ import annotations

import json

from runtime import Request, Sampling, Verifier
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
    "refused",
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


def test_an_answer_that_a_stop_text_cut_is_the_same_cold(engine):
    made = engine("hybrid")
    (whole,) = play(made, [ask("Hello")])
    stop = whole["output"][3:6]
    with Verifier(made) as verifier:
        (line,) = play(made, [ask("Hello", sampling=Sampling(stop=(stop,)))], verifier=verifier)
    assert (line["output"], line["finish"]) == (whole["output"].split(stop)[0], "stop")
    assert line["verify"]["identical"]
    assert line["verify"]["cold_output"] == line["output"]


def test_log_probabilities_come_as_openai_gives_them(engine):
    (line,) = play(engine(), [ask("Hello", sampling=Sampling(top_logprobs=2))])
    content = line["logprobs"]["content"]
    assert len(content) == 4
    assert "".join(token["token"] for token in content) == line["output"]
    first = content[0]
    assert bytes(first["bytes"]).decode() == first["token"]
    # Greedily chosen, so the likeliest.
    assert first["top_logprobs"][0] == {key: first[key] for key in ("token", "logprob", "bytes")}
    assert first["top_logprobs"][0]["logprob"] >= first["top_logprobs"][1]["logprob"]


def test_a_bias_for_a_token_that_is_not_there_is_refused_before_anything_is_evaluated(engine):
    made = engine()
    (line,) = play(made, [ask("Hello", sampling=Sampling(logit_bias=((10**6, 1.0),)))])
    assert line["error"].startswith("logit_bias: 1000000 is no token of this model")
    assert not len(made.tree.pool)


def test_an_answer_without_a_way_on_is_an_error_and_the_next_request_is_played(engine):
    made = engine()
    never = tuple((token, float("-inf")) for token in range(made.model.n_vocab))
    stuck = Sampling(grammar='root ::= "7"', logit_bias=never)
    lines = list(play(made, [ask("Hello", sampling=stuck), ask("Hello")]))
    assert [line["finish"] for line in lines] == ["error", "length"]
    assert lines[0]["error"].startswith("grammar: no token of this model can follow")
