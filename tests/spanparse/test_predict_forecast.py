"""Where the next prompt parts from this one by what a template rewrites, as a planner wants it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.expectation.weights import EVENTS
from runtime.tiny import vocabulary
from spanparse import load_source
from spanparse.bounds.limits import Limits
from spanparse.parse import parse_request, request_of
from spanparse.prediction import Forecast, Likely, likely_offsets, predict_rendering
from spanparse.prediction.continuation import NAMES, appends
from spanparse.prediction.forecast import SHARES
from spanparse.sources import TemplateSource
from spanparse.tokens import HuggingFaceTokenizer, TokenMap, token_map

BACKEND = HuggingFaceTokenizer(vocabulary.hf_tokenizer(), name="tiny")
BODY = json.loads((Path(__file__).parents[2] / "fixtures" / "conversations" / "agent.json").read_text("utf-8"))


class Chat:
    """The agent's conversation up to a message, through one template."""

    def __init__(self, name: str) -> None:
        self.template = load_source(name, tools=True)
        self.forecast = Forecast(self.template, BACKEND)

    def likely(self, length: int, forecast: Forecast | None = None, **options: Any) -> tuple[Likely, ...]:
        request = request_of(self.template, BODY["messages"][:length], tools=BODY["tools"])
        rendering = parse_request(self.template, request)
        return (forecast or self.forecast).likely(rendering, request, self.tokens(length), **options)

    def tokens(self, length: int) -> TokenMap:
        request = request_of(self.template, BODY["messages"][:length], tools=BODY["tools"])
        return token_map(parse_request(self.template, request), BACKEND, template=self.template.text)

    def predicted(self, length: int) -> tuple[Likely, ...]:
        request = request_of(self.template, BODY["messages"][:length], tools=BODY["tools"])
        rendering = parse_request(self.template, request)
        return likely_offsets(predict_rendering(rendering, self.template, request, backend=BACKEND, remedies=False))


def asked(length: int) -> int:
    return sum(message["role"] == "user" for message in BODY["messages"][:length])


LENGTHS = [i for i, message in enumerate(BODY["messages"]) if message["role"] == "assistant"]


def test_a_template_that_drops_reasoning_is_expected_to_part_after_the_last_user_message() -> None:
    chat = Chat("chatml")
    length = LENGTHS[3]
    last = max(i for i, message in enumerate(BODY["messages"][:length]) if message["role"] == "user")
    user_ends = chat.tokens(length).message_ranges[last].pieces[-1].end
    weights = dict(chat.predicted(length))
    (near,) = [offset for offset in weights if user_ends <= offset < user_ends + 8]
    assert weights[near] >= SHARES["user_message"]


@pytest.mark.parametrize("name", ["chatml", "gpt-oss", "gemma4", "deepseek", "qwen3-coder"])
def test_a_turn_s_forecast_is_what_each_of_its_prompts_would_give(name: str) -> None:
    chat = Chat(name)
    for length in LENGTHS:
        assert chat.likely(length) == chat.predicted(length)


def test_no_turn_is_predicted_more_than_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from spanparse.prediction import forecast

    calls: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(len(arguments[2].messages))
        return predict_rendering(*arguments, **options)

    monkeypatch.setattr(forecast, "predict_rendering", counted)
    chat = Chat("chatml")
    for length in LENGTHS:
        chat.likely(length)
    turns = [asked(length) for length in calls]
    assert len(calls) < len(LENGTHS)
    assert all(turns.count(turn) <= 2 for turn in turns)


def test_an_edited_conversation_is_forecast_anew() -> None:
    chat = Chat("chatml")
    chat.likely(LENGTHS[2])
    messages = [{**m, "content": "Other."} if m["role"] == "user" else m for m in BODY["messages"][: LENGTHS[2]]]
    request = request_of(chat.template, messages, tools=BODY["tools"])
    rendering = parse_request(chat.template, request)
    tokens = token_map(rendering, BACKEND, template=chat.template.text)
    found = chat.forecast.likely(rendering, request, tokens)
    assert found == Forecast(chat.template, BACKEND).likely(rendering, request, tokens)


def test_what_is_past_the_end_of_a_turn_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "reminding.jinja"
    path.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if loop.last %} Be brief.{% endif %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    template = load_source(str(path))
    forecast = Forecast(template, BACKEND)

    def likely(*answers: str) -> tuple[int, list[int]]:
        messages = [{"role": "assistant", "content": answer} for answer in answers]
        request = request_of(template, [{"role": "user", "content": "Look at it."}, *messages])
        rendering = parse_request(template, request)
        tokens = token_map(rendering, BACKEND, template=template.text)
        return tokens.count, [offset for offset, _ in forecast.likely(rendering, request, tokens)]

    long, short = likely("Well. " * 200), likely("Well.", "Well.")
    assert min(long[1]) > short[0]
    assert short[1] == []


def test_what_clients_do_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "plain.jinja"
    path.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    template = load_source(str(path))
    request = request_of(template, [{"role": role, "content": "Look at it."} for role in ("user", "assistant")])
    rendering = parse_request(template, request)
    tokens = token_map(rendering, BACKEND, template=template.text)
    prediction = predict_rendering(rendering, template, request, backend=BACKEND, tokens=tokens, remedies=False)
    assert prediction.outcome("regenerate").lost_tokens
    assert prediction.outcome("edit_last_user").lost_tokens
    # After an answer the user must speak: of the header that was asked for, one more answer's, only the marker stays.
    assert tokens.generation_prompt is not None
    assert [offset for offset, _ in likely_offsets(prediction)] == [tokens.generation_prompt.begin + 1]


def test_nothing_is_expected_where_the_renders_run_past_the_limits() -> None:
    chat = Chat("chatml")
    assert chat.likely(LENGTHS[0], limits=Limits(characters=100)) == ()


def test_without_a_tokenizer_no_offset_is_known() -> None:
    template: TemplateSource = load_source("chatml")
    request = request_of(template, [{"role": "user", "content": "hi"}])
    assert likely_offsets(predict_rendering(parse_request(template, request), template, request)) == ()


def test_the_shares_are_the_planner_s_weights_of_the_same_events() -> None:
    assert SHARES["user_message"] == EVENTS.rewrite
    assert SHARES["tool_call"] == EVENTS.answer


def test_there_is_a_share_for_every_continuation_that_appends() -> None:
    assert set(SHARES) == {name for name in NAMES if appends(name)}
