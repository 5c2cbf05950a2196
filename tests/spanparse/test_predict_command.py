"""`spanparse predict`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spanparse.cli import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `spanparse predict` with the given arguments: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["predict", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def document(command: Command, *arguments: object) -> Any:
    code, out, _ = command(*arguments, "--json")
    assert code == 0
    return json.loads(out)


def test_the_json_follows_the_contract(command: Command) -> None:
    found = document(command, "hybrid")
    assert found["schema_version"] == 1
    assert found["prompt_tokens"] > 0
    (dropped,) = [outcome for outcome in found["continuations"] if outcome["name"] == "user_message"]
    assert dropped["kept_tokens"] + dropped["lost_tokens"] == found["prompt_tokens"]
    assert dropped["diverges"] == {"message": 8, "field": "reasoning_content", "offset": 0}
    assert dropped["remedies"] == ["set preserve_thinking=true: none of 308 characters is lost"]


def test_without_a_tokenizer_tokens_are_null(command: Command) -> None:
    found = document(command, "chatml")
    assert found["prompt_tokens"] is None
    assert all(outcome["kept_tokens"] is None for outcome in found["continuations"])


def test_a_variable_can_be_set(command: Command) -> None:
    found = document(command, "chatml", "--set", "preserve_thinking=true")
    (user,) = [outcome for outcome in found["continuations"] if outcome["name"] == "user_message"]
    assert user["lost_chars"] == 0


def test_the_generation_prompt_can_be_left_out(command: Command) -> None:
    shorter = document(command, "chatml", "--no-generation-prompt")["prompt_chars"]
    assert shorter < document(command, "chatml")["prompt_chars"]


def test_the_conversation_can_be_the_callers_own(command: Command, tmp_path: Path) -> None:
    messages = tmp_path / "messages.json"
    messages.write_text('[{"role": "user", "content": "Hello"}]', "utf-8")
    found = document(command, "chatml", "--messages", messages)
    assert "sample" not in found
    assert found["prompt_chars"] == len("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n")


def test_a_person_sees_what_is_lost_where_why_and_what_helps(command: Command) -> None:
    code, out, err = command("chatml")
    assert (code, err) == (0, "")
    assert "messages[8] reasoning_content, character 0" in out
    assert "the template leaves earlier reasoning out once a new user message follows" in out
    assert "→ set preserve_thinking=true" in out


def test_continuations_that_lose_the_same_share_their_explanation(command: Command) -> None:
    _, out, _ = command("gpt-oss")
    assert "\nassistant_answer, assistant_answer_with_reasoning\n" in out


def test_a_hazard_is_shown_with_its_remedy(command: Command) -> None:
    _, out, _ = command("llama3")
    assert "clock: the template prints the date or time" in out
    assert "→ set date_string to a fixed date" in out


def test_many_changes_of_one_kind_take_one_line(command: Command, tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for step in range(30):
        call = {"id": f"step{step:05}", "type": "function", "function": {"name": "look", "arguments": {"at": step}}}
        messages += [
            {"role": "assistant", "content": "", "reasoning_content": f"Thought {step}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"step{step:05}", "content": f"Result {step}."},
        ]
    file = tmp_path / "messages.json"
    file.write_text(json.dumps(messages), "utf-8")
    _, out, _ = command("chatml", "--messages", file)
    assert "reasoning_content of 30 messages, 1 to 59, dropped" in out


def test_a_refused_continuation_shows_the_templates_reason(command: Command) -> None:
    _, out, _ = command("gemma3")
    assert "Gemma 3 has no tool calls" in out


def test_what_cannot_be_read_is_one_line_and_exit_code_2(command: Command) -> None:
    code, out, err = command("no-such-template")
    assert (code, out) == (2, "")
    assert err.startswith("spanparse: no-such-template: ")
    assert err.count("\n") == 1


def test_a_narrow_terminal_loses_no_figure(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = command("hybrid")
    assert "2,373 (748)" in out
    assert "308 (97)" in out
