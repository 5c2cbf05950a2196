"""Request files: every fault is named by line and field before anything runs."""

from __future__ import annotations

import json

import pytest

from runtime.errors import RequestError
from runtime.requests import parse_requests, read_requests
from runtime.sampling import Sampling
from runtime.sampling.schema import schema_grammar

USER = {"role": "user", "content": "Hello"}


def parse(*lines):
    return parse_requests([line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines], "r.jsonl")


def test_messages_are_all_a_line_needs():
    (request,) = parse({"messages": [USER]})
    assert request.messages == [USER]
    assert (request.id, request.tools, request.kwargs) == ("1", None, {})
    assert (request.max_tokens, request.sampling, request.cancel_after_tokens) == (16, Sampling(), None)


def test_every_field_of_a_line_is_kept():
    tools = [{"type": "function", "function": {"name": "look"}}]
    (request,) = parse(
        {
            "id": "a",
            "messages": [USER],
            "tools": tools,
            "chat_template_kwargs": {"enable_thinking": False},
            "max_tokens": 0,
            "temperature": 1,
            "top_k": 5,
            "top_p": 0.5,
            "min_p": 0.1,
            "seed": 3,
            "typical_p": 0.9,
            "repeat_penalty": 1.1,
            "repeat_last_n": 32,
            "frequency_penalty": -0.5,
            "presence_penalty": 2,
            "logit_bias": {"42": -100, "7": 0.5},
            "grammar": 'root ::= "a"',
            "stop": ["\n", "END"],
            "logprobs": True,
            "top_logprobs": 3,
            "cancel_after_tokens": 1000,
        }
    )
    assert (request.id, request.tools, request.kwargs) == ("a", tools, {"enable_thinking": False})
    assert (request.max_tokens, request.cancel_after_tokens) == (0, 1000)
    assert request.sampling == Sampling(
        temperature=1.0,
        top_k=5,
        top_p=0.5,
        min_p=0.1,
        seed=3,
        typical_p=0.9,
        repeat_penalty=1.1,
        repeat_last_n=32,
        frequency_penalty=-0.5,
        presence_penalty=2.0,
        logit_bias=((42, -100.0), (7, 0.5)),
        grammar='root ::= "a"',
        stop=("\n", "END"),
        top_logprobs=3,
    )


def test_fields_have_their_other_names_and_forms():
    (request,) = parse({"messages": [USER], "max_completion_tokens": 5, "stop": "x", "logprobs": True})
    assert request.max_tokens == 5
    assert (request.sampling.stop, request.sampling.top_logprobs) == (("x",), 0)


def test_null_is_the_same_as_nothing():
    fields = ("stop", "logit_bias", "logprobs", "max_tokens", "temperature", "response_format", "seed", "tools", "id")
    (request,) = parse({"messages": [USER], **dict.fromkeys(fields)})
    assert (request.max_tokens, request.sampling, request.id) == (16, Sampling(), "1")


@pytest.mark.parametrize(
    ("response_format", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, schema_grammar({"type": "object"})),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "integer"}}},
            schema_grammar({"type": "integer"}),
        ),
    ],
)
def test_a_response_format_becomes_a_grammar(response_format, expected):
    (request,) = parse({"messages": [USER], "response_format": response_format})
    assert request.sampling.grammar == expected


def test_blank_lines_are_skipped_and_counted():
    first, second = parse({"messages": [USER]}, b"  \n", {"messages": [USER]})
    assert (first.id, second.id) == ("1", "3")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"messages": [', "r.jsonl line 2: not valid JSON (Expecting value: line 1 column 15 (char 14))"),
        (b"\xff", "r.jsonl line 2: not valid JSON"),
        (b"[]", "r.jsonl line 2: should be an object with messages"),
        ({}, "r.jsonl line 2, messages: missing"),
        ({"messages": []}, "r.jsonl line 2, messages: the list is empty"),
        ({"messages": [{"content": "x"}]}, "r.jsonl line 2, messages[0].role: missing"),
        ({"messages": [USER], "max_tokens": -1}, "r.jsonl line 2, max_tokens: Input should be greater than or equal"),
        ({"messages": [USER], "max_tokens": "4"}, "r.jsonl line 2, max_tokens: Input should be a valid integer"),
        ({"messages": [USER], "top_p": 0}, "r.jsonl line 2, top_p: Input should be greater than 0"),
        (b'{"messages": [], "temperature": NaN}', "r.jsonl line 2, temperature: Input should be a finite number"),
        ({"messages": [USER], "cancel_after": 5}, "r.jsonl line 2, cancel_after: no such field"),
        ({"messages": [USER], "stop": ""}, "r.jsonl line 2, stop.0: String should have at least 1 character"),
        ({"messages": [USER], "stop": [3]}, "r.jsonl line 2, stop.0: Input should be a valid string"),
        ({"messages": [USER], "logit_bias": {"x": 1}}, "r.jsonl line 2, logit_bias: should be an object of token ids"),
        ({"messages": [USER], "logit_bias": [1]}, "r.jsonl line 2, logit_bias: should be an object of token ids"),
        (
            {"messages": [USER], "logit_bias": {"7": 101}},
            "r.jsonl line 2, logit_bias.7: Input should be less than or eq",
        ),
        ({"messages": [USER], "frequency_penalty": 3}, "r.jsonl line 2, frequency_penalty: Input should be less than"),
        ({"messages": [USER], "repeat_penalty": 0}, "r.jsonl line 2, repeat_penalty: Input should be greater than 0"),
        ({"messages": [USER], "top_logprobs": 3}, "r.jsonl line 2: top_logprobs needs logprobs to be true"),
        (
            {"messages": [USER], "logprobs": True, "top_logprobs": 21},
            "r.jsonl line 2, top_logprobs: Input should be less",
        ),
        ({"messages": [USER], "max_tokens": 1, "max_completion_tokens": 1}, "r.jsonl line 2: max_tokens and max_compl"),
        ({"messages": [USER], "grammar": "root ::= x"}, "r.jsonl line 2, grammar: line 1: there is no rule named x"),
        ({"messages": [USER], "grammar": ""}, "r.jsonl line 2, grammar: there is no rule named root"),
        (
            {"messages": [USER], "grammar": 'root ::= "a"', "response_format": {"type": "text"}},
            "r.jsonl line 2: grammar and response_format exclude each other",
        ),
        (
            {"messages": [USER], "response_format": {"type": "xml"}},
            "r.jsonl line 2, response_format.type: Input should",
        ),
        (
            {"messages": [USER], "response_format": {"type": "json_schema"}},
            "r.jsonl line 2, response_format: json_schema and the type json_schema go together",
        ),
        (
            {"messages": [USER], "response_format": {"type": "json_schema", "json_schema": {"schema": {"minimum": 1}}}},
            "r.jsonl line 2, response_format.json_schema.schema.minimum: a grammar cannot keep this",
        ),
        ({"messages": [USER], "tools": [{}]}, "r.jsonl line 2, tools[0].function: missing"),
    ],
)
def test_a_fault_is_named_by_line_and_field(line, message):
    with pytest.raises(RequestError) as caught:
        parse({"messages": [USER]}, line)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_file_without_requests_is_an_error():
    with pytest.raises(RequestError, match=r"r\.jsonl: holds no requests"):
        parse(b"\n")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(RequestError, match="none: No such file or directory"):
        read_requests(tmp_path / "none")


def test_a_file_is_read(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"messages": [USER]}) + "\n", encoding="utf-8")
    assert [request.messages for request in read_requests(path)] == [[USER]]


def test_a_file_without_end_is_read_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("runtime.requests._MAX_FILE_BYTES", 1 << 20)
    (tmp_path / "long.jsonl").write_bytes(b"\n" * ((1 << 20) + 1))
    with pytest.raises(RequestError, match=r"long\.jsonl: larger than 1 MiB$"):
        read_requests(tmp_path / "long.jsonl")
