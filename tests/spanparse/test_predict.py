"""What a prediction says, on the bundled templates and on small ones that each do one thing to old messages."""

from __future__ import annotations

import hashlib
import importlib
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spanparse import (
    Limits,
    Prediction,
    TemplateLimit,
    TemplateRefused,
    TemplateSource,
    load_source,
    predict,
    render_plain,
    request_of,
)
from spanparse.prediction import Divergence, to_json
from spanparse.sample import sample_messages, sample_tools
from spanparse.shared import common_prefix
from spanparse.sources import bundled_names

Message = dict[str, Any]

NAMES = (
    "assistant_answer",
    "assistant_answer_with_reasoning",
    "tool_call",
    "user_message",
    "regenerate",
    "edit_last_user",
)
# Like Qwen3: an answer is asked for behind an open think block, and written back without one if it has no reasoning.
OPEN_THINK = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
CHAT: list[Message] = [
    {"role": "user", "content": "Is it far?"},
    {"role": "assistant", "content": "Two hours."},
    {"role": "user", "content": "And back?"},
]


def source(text: str) -> TemplateSource:
    return TemplateSource("test", text, hashlib.sha256(text.encode()).hexdigest())


def sample(name: str, **options: Any) -> Prediction:
    return predict(load_source(name), sample_messages(), tools=sample_tools(), **options)


def losing(prediction: Prediction) -> set[str]:
    return {outcome.name for outcome in prediction.continuations if outcome.lost_chars}


def changed(prediction: Prediction, name: Any) -> list[tuple[int | None, str, str]]:
    return [(change.message, change.field, change.what) for change in prediction.outcome(name).changes]


@pytest.mark.parametrize("name", bundled_names())
def test_every_continuation_is_reported_in_order(name: str) -> None:
    assert tuple(outcome.name for outcome in predict(load_source(name), CHAT).continuations) == NAMES


@pytest.mark.parametrize("name", bundled_names())
def test_kept_and_lost_add_up_to_the_prompt(name: str) -> None:
    found = predict(load_source(name), CHAT)
    for outcome in found.continuations:
        if outcome.reason is None:
            assert outcome.kept_chars is not None
            assert outcome.lost_chars is not None
            assert outcome.kept_chars + outcome.lost_chars == found.prompt_chars


def test_a_new_user_message_drops_the_reasoning_of_the_turn_before_it() -> None:
    found = sample("chatml")
    assert losing(found) == {"user_message", "edit_last_user"}
    assert found.outcome("user_message").diverges == Divergence(8, "reasoning_content", 0)
    assert changed(found, "user_message") == [(8, "reasoning_content", "dropped")]


def test_harmony_drops_reasoning_as_soon_as_an_answer_follows() -> None:
    found = sample("gpt-oss")
    assert losing(found) == {
        "assistant_answer", "assistant_answer_with_reasoning", "user_message", "edit_last_user"
    }  # fmt: skip
    assert changed(found, "assistant_answer") == [(8, "reasoning_content", "dropped")]


def test_what_stands_with_the_last_user_message_moves_when_another_comes() -> None:
    found = sample("mistral-v3")
    assert found.outcome("user_message").diverges == Divergence(0, "tools", 0)
    assert changed(found, "user_message") == [(0, "tools", "moved"), (0, "content", "moved")]


def test_a_generation_prompt_that_history_does_not_repeat_is_lost() -> None:
    found = predict(load_source("deepseek"), CHAT, kwargs={"thinking": True})
    # Behind the marker history has </think> where the generation prompt has <think>; the < is shared.
    assert found.outcome("user_message").diverges == Divergence(None, "generation_prompt", len("<｜Assistant｜><"))
    assert changed(found, "user_message") == [(None, "generation_prompt", "rewritten")]


def test_a_trailer_that_depends_on_being_last_is_rewritten() -> None:
    template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ '<end>' if loop.last else '<next>' }}{% endfor %}"
    )
    found = predict(source(template), CHAT)
    assert found.outcome("user_message").diverges == Divergence(2, "trailer", 1)
    assert changed(found, "user_message") == [(2, "trailer", "rewritten")]


def test_a_text_that_is_left_out_later_is_dropped() -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last or m.role == 'user' }}{% endfor %}"
    found = predict(source(template), [*CHAT, {"role": "assistant", "content": "The same."}])
    assert changed(found, "user_message") == [(3, "content", "dropped")]


def test_many_dropped_fields_are_all_found() -> None:
    messages: list[Message] = [{"role": "user", "content": "Go."}]
    for step in range(40):
        call = {"id": f"step{step:05}", "type": "function", "function": {"name": "look", "arguments": {"at": step}}}
        messages += [
            {"role": "assistant", "content": "", "reasoning_content": f"Thought {step}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"step{step:05}", "content": f"Result {step}."},
        ]
    found = predict(load_source("chatml"), messages)
    expected = [(index, "reasoning_content", "dropped") for index in range(1, 81, 2)]
    assert changed(found, "user_message") == expected


def test_an_edit_diverges_at_the_first_character_that_is_shown() -> None:
    messages = [*CHAT[:2], {"role": "user", "content": "  And back?"}]
    assert predict(load_source("chatml"), messages).outcome("edit_last_user").diverges == Divergence(2, "content", 0)
    # Llama's template trims; the offset counts the characters of the field itself.
    assert predict(load_source("llama3"), messages).outcome("edit_last_user").diverges == Divergence(2, "content", 2)


def test_an_edit_counts_no_change_of_the_template() -> None:
    assert sample("chatml").outcome("edit_last_user").changes == ()
    assert sample("chatml").outcome("edit_last_user").remedies == ()


def test_regenerating_keeps_the_whole_prompt() -> None:
    outcome = sample("chatml").outcome("regenerate")
    assert (outcome.lost_chars, outcome.diverges) == (0, None)


def test_regenerating_an_answer_that_is_already_there_keeps_what_stands_before_it() -> None:
    messages = [*CHAT, {"role": "assistant", "content": "Three hours."}]
    found = predict(load_source("gemma3"), messages, add_generation_prompt=False)
    prompt = render_plain(load_source("gemma3").text, request_of(load_source("gemma3"), CHAT))
    # Without a generation prompt the last message's whole span is gone.
    assert found.outcome("regenerate").kept_chars == len(prompt) - len("<start_of_turn>model\n")


def test_a_refused_continuation_has_the_templates_reason_and_no_numbers() -> None:
    outcome = predict(load_source("gemma3"), CHAT).outcome("tool_call")
    assert outcome.reason == "the template refuses it: Gemma 3 has no tool calls"
    assert (outcome.kept_chars, outcome.lost_chars, outcome.diverges) == (None, None, None)


def test_a_refused_conversation_raises() -> None:
    with pytest.raises(TemplateRefused, match="alternate"):
        predict(load_source("gemma3"), [CHAT[0], CHAT[0]])


def test_reasoning_that_is_not_sent_back_costs_the_opened_think_block() -> None:
    found = predict(source(OPEN_THINK), CHAT)
    outcome = found.outcome("user_message")
    assert outcome.lost_chars == len("<think>\n")
    assert [remedy.kind for remedy in outcome.remedies] == ["reasoning"]
    assert outcome.remedies[0].text == "send the answer's reasoning_content back: none of 8 characters is lost"


def test_an_answer_brings_reasoning_where_earlier_ones_do() -> None:
    thinking = [CHAT[0], {**CHAT[1], "reasoning_content": "Uphill."}, CHAT[2]]
    assert predict(source(OPEN_THINK), thinking).outcome("user_message").lost_chars == 0


def test_a_variable_that_keeps_more_is_a_remedy() -> None:
    (remedy,) = sample("chatml").outcome("user_message").remedies
    assert remedy.kind == "kwarg"
    assert remedy.text == "set preserve_thinking=true: none of 308 characters is lost"


@pytest.mark.parametrize("name", ["chatml", "gemma4"])
def test_a_remedy_keeps_what_it_says_when_it_is_applied(name: str) -> None:
    (remedy,) = sample(name).outcome("user_message").remedies
    applied = sample(name, kwargs={"preserve_thinking": True}).outcome("user_message")
    assert (remedy.kept_chars, remedy.lost_chars) == (applied.kept_chars, applied.lost_chars)


def test_a_variable_that_only_sounds_right_is_no_remedy() -> None:
    template = OPEN_THINK + "{% if preserve_thinking %}{# reads it and does nothing #}{% endif %}"
    remedies = predict(source(template), CHAT).outcome("user_message").remedies
    assert [remedy.kind for remedy in remedies] == ["reasoning"]


def test_a_variable_that_the_template_then_refuses_is_no_remedy() -> None:
    template = "{% if preserve_thinking %}{{ raise_exception('no') }}{% endif %}" + OPEN_THINK
    remedies = predict(source(template), CHAT).outcome("user_message").remedies
    assert [remedy.kind for remedy in remedies] == ["reasoning"]


def test_a_remedy_that_changes_what_is_asked_says_so() -> None:
    found = predict(load_source("deepseek"), CHAT, kwargs={"thinking": True})
    (remedy,) = [remedy for remedy in found.outcome("user_message").remedies if "thinking=false" in remedy.text]
    assert "also changes what the model is asked to do" in remedy.text


def test_without_remedies_there_are_neither_remedies_nor_hazards() -> None:
    found = sample("llama3", remedies=False)
    assert found.hazards == ()
    assert not any(outcome.remedies for outcome in sample("chatml", remedies=False).continuations)


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was rendered since: `marked` for a parse, `plain` for a continuation or a remedy."""
    done: list[str] = []

    def counted(name: str, function: str, what: str) -> None:
        module = importlib.import_module(name)
        original = getattr(module, function)

        def call(*arguments: Any, **options: Any) -> Any:
            done.append(what)
            return original(*arguments, **options)

        monkeypatch.setattr(module, function, call)

    counted("spanparse.parse", "render_marked", "marked")
    counted("spanparse.prediction.renderer", "render_plain", "plain")
    return done


@pytest.mark.parametrize("name", [name for name in bundled_names() if name != "gemma3"])
def test_a_prediction_costs_one_parse_and_a_render_for_each_continuation_that_differs(
    name: str, renders: list[str]
) -> None:
    found = sample(name, remedies=False)
    assert renders.count("marked") == 1
    # Regenerating asks for the prompt that is there.
    assert renders.count("plain") == found.renders == len(NAMES) - 1


def test_remedies_are_looked_for_only_where_the_template_loses_something(renders: list[str]) -> None:
    found = sample("qwen3-coder")
    assert losing(found) == {"edit_last_user"}
    assert renders.count("plain") == found.renders == len(NAMES) - 1


def test_the_renders_of_remedies_are_counted(renders: list[str]) -> None:
    # preserve_thinking=true on the next request and on the present one; with it nothing is lost.
    assert sample("chatml").renders == renders.count("plain") == len(NAMES) - 1 + 2


def test_a_fixed_date_costs_one_render_where_it_is_the_one_that_the_template_prints(renders: list[str]) -> None:
    # The same conversation later, and later with the date given.
    assert sample("llama3").renders == renders.count("plain") == len(NAMES) - 1 + 2


def test_reasoning_sent_back_is_the_continuation_that_was_rendered_already(renders: list[str]) -> None:
    found = predict(source(OPEN_THINK), CHAT)
    (remedy,) = found.outcome("assistant_answer").remedies
    assert remedy.kept_chars == found.outcome("assistant_answer_with_reasoning").kept_chars
    # Of the two others that answer, each with reasoning.
    assert found.renders == renders.count("plain") == len(NAMES) - 1 + 2


def test_no_switch_over_reasoning_is_tried_where_something_else_is_lost(renders: list[str]) -> None:
    template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content if loop.last or preserve_thinking else m.content[:2] }}"
        "{% endfor %}[assistant]"
    )
    assert losing(predict(source(template), CHAT)) >= {"user_message"}
    assert renders.count("plain") == len(NAMES) - 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes on by a second whenever it is looked at."""
    monkeypatch.setattr("spanparse.bounds.limits.time.monotonic", itertools.count().__next__)


# Looks at the clock ten times a render; loses reasoning, with a switch that might keep it.
SLOW = (
    "{% for i in range(2560) %}{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% if m.reasoning_content and (loop.last or keep_thinking) %}({{ m.reasoning_content }}){% endif %}{% endfor %}"
)
THOUGHT: list[Message] = [CHAT[0], {**CHAT[1], "reasoning_content": "On foot?"}]


@pytest.mark.usefixtures("clock")
def test_the_parse_and_all_renders_share_the_caller_s_time() -> None:
    # Once compiled and learned: 20 s for the parse, 60 s for six continuations.
    predict(source(SLOW), THOUGHT, limits=Limits(seconds=1000), remedies=False)
    predict(source(SLOW), THOUGHT, limits=Limits(seconds=81), remedies=False)
    with pytest.raises(TemplateLimit, match=r"still rendering after 75 s \(Limits\.seconds\)"):
        predict(source(SLOW), THOUGHT, limits=Limits(seconds=75), remedies=False)


@pytest.mark.usefixtures("clock")
def test_a_search_for_remedies_that_takes_too_long_ends_without_them_and_says_so() -> None:
    predict(source(SLOW), THOUGHT, limits=Limits(seconds=1000), remedies=False)
    found = predict(source(SLOW), THOUGHT, limits=Limits(seconds=90))
    assert found.unfinished == "still rendering after 90 s (Limits.seconds)"
    assert to_json(found)["unfinished"] == found.unfinished
    assert found.outcome("user_message").remedies == ()
    whole = predict(source(SLOW), THOUGHT, limits=Limits(seconds=1000))
    assert whole.unfinished is None
    assert whole.outcome("user_message").remedies != ()


def test_the_json_has_every_key_of_the_contract() -> None:
    found = to_json(sample("chatml"))
    assert found.keys() >= {"prompt_tokens", "continuations"}
    for outcome in found["continuations"]:
        assert outcome.keys() >= {
            "name", "kept_chars", "lost_chars", "kept_tokens", "lost_tokens", "diverges", "remedies"
        }  # fmt: skip
    (dropped,) = [outcome for outcome in found["continuations"] if outcome["name"] == "user_message"]
    assert dropped["diverges"] == {"message": 8, "field": "reasoning_content", "offset": 0}
    assert dropped["remedies"] == ["set preserve_thinking=true: none of 308 characters is lost"]


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "Z", "P"], exclude_characters="<"), max_size=20)


@st.composite
def dialogues(draw: st.DrawFn) -> tuple[list[Message], int, str]:
    """Messages, how many of them are the present request's, and the continuation that the next request is."""
    messages: list[Message] = [{"role": "system", "content": draw(words)}] if draw(st.booleans()) else []
    thinks = draw(st.booleans())

    def answer(**fields: Any) -> None:
        reasoning = {"reasoning_content": "R" + draw(words)} if thinks else {}
        messages.append({"role": "assistant", "content": "", **fields, **reasoning})

    messages.append({"role": "user", "content": draw(words)})
    for _ in range(draw(st.integers(1, 3))):
        for step in range(draw(st.integers(0, 2))):
            call = {
                "id": f"look{step:05}",
                "type": "function",
                "function": {"name": "look", "arguments": {"at": draw(words)}},
            }
            answer(tool_calls=[call])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": draw(words)})
        answer(content="A" + draw(words))
        messages.append({"role": "user", "content": draw(words)})
    asked = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    # From the second on, so that the conversation shows whether answers bring reasoning.
    place = draw(st.integers(1, len(asked) - 1)) if len(asked) > 1 else 0
    now = asked[place]
    end = asked[place + 1] if place + 1 < len(asked) else len(messages)
    if not place and not thinks:
        messages[now]["reasoning_content"] = "Assumed."
    return messages[:end], now, "tool_call" if messages[end - 1]["role"] == "tool" else "user_message"


@pytest.mark.parametrize("name", bundled_names())
@given(dialogue=dialogues())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_predicted_prefix_is_what_the_next_request_shares(
    name: str, dialogue: tuple[list[Message], int, str]
) -> None:
    messages, now, continuation = dialogue
    template = load_source(name)
    try:
        found = predict(template, messages[:now], tools=sample_tools(), remedies=False)
        following = render_plain(template.text, request_of(template, messages, tools=sample_tools()))
    except TemplateRefused:
        return
    present = render_plain(template.text, request_of(template, messages[:now], tools=sample_tools()))
    (outcome,) = [outcome for outcome in found.continuations if outcome.name == continuation]
    assert outcome.kept_chars == common_prefix(present, following)
