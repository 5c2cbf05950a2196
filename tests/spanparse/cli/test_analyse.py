from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_the_json_has_every_finding(cli: Run) -> None:
    found = cli("analyse", "chatml", "--json").json
    assert found["schema_version"] == 1
    assert found["template"].items() >= {"source": "chatml", "family": "chatml"}.items()
    assert found["roles"]["user"].items() >= {"start": "<|im_start|>user\n", "end": "<|im_end|>\n"}.items()
    assert found["llama_cpp"] == {"user_start": "<|im_start|>user", "assistant_start": "<|im_start|>assistant"}
    assert [variable["name"] for variable in found["variables"]] == ["enable_thinking", "preserve_thinking"]


@pytest.mark.parametrize(
    "shown",
    [
        "chatml · family chatml",
        "“<|im_start|>user⏎”",
        "read from reasoning_content",
        '<tool_call>⏎{"name": "NAME", "arguments": ARGUMENTS}⏎</tool_call>',
        "shows the reasoning of earlier turns",
        "Roles are system, developer, user, assistant and tool, not narrator",
    ],
)
def test_the_report_tells_what_was_found(cli: Run, shown: str) -> None:
    assert shown in cli("analyse", "chatml").out


def test_every_bundled_template_has_a_report(cli: Run) -> None:
    for name in ("deepseek", "gemma3", "gemma4", "gpt-oss", "llama3", "mistral-v3", "mistral-v7", "qwen3-coder"):
        outcome = cli("analyse", name)
        assert outcome.code == 0
        assert name in outcome.out


def test_a_tiny_models_template_can_be_analysed(cli: Run) -> None:
    assert cli("analyse", "hybrid", "--json").json["template"]["family"] == "chatml"


def test_a_special_token_can_be_given(cli: Run) -> None:
    found = cli("analyse", "mistral-v3", "--set", "eos_token=<|stop|>", "--json").json
    assert found["roles"]["assistant"]["end"] == "<|stop|>"


def test_a_template_that_refuses_everything_says_so(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "no.jinja"
    path.write_text("{{ raise_exception('not today') }}")
    outcome = cli("analyse", path)
    assert outcome.code == 0
    assert "Refuses every conversation that was tried: not today" in outcome.out


def test_markup_and_escapes_in_a_template_do_not_act(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "odd.jinja"
    path.write_text("{% for m in messages %}[bold]\x1b[31m{{ m.role }}: {{ m.content }}{{ x }}\n{% endfor %}", "utf-8")
    out = cli("analyse", path).out
    assert "[bold]␛[31m" in out
    assert "\x1b" not in out


def test_a_missing_template_is_one_line(cli: Run) -> None:
    assert "nowhere.jinja: no such file" in cli("analyse", "nowhere.jinja").error


def test_a_broken_template_is_one_line(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "broken.jinja"
    path.write_text("{% if %}")
    assert "line 1" in cli("analyse", path).error


# --- inspect --raw ------------------------------------------------------------------------------------------------


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    path = tmp_path / "prompt.txt"
    path.write_text("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n", "utf-8")
    return path


def test_a_raw_prompt_is_shown_as_inexact(cli: Run, prompt: Path) -> None:
    found = cli("inspect", "chatml", "--raw", prompt, "--json").json
    assert found["exact"] is False
    assert found["reason"] == "raw-text"
    assert [(m["role"], m["start"], m["end"], m["exact"]) for m in found["messages"]] == [("user", 0, 30, False)]
    parts = [{"kind": "header", "start": 30, "end": 52}, {"kind": "reasoning", "start": 52, "end": 60}]
    assert found["generation_prompt"] == {"start": 30, "end": 60, "parts": parts}
    assert "inexact: raw-text" in cli("inspect", "chatml", "--raw", prompt).out


def test_a_text_without_markers_is_warned_of(cli: Run) -> None:
    outcome = cli("inspect", "chatml", "--raw", "-", stdin=b"Once upon a time.")
    assert outcome.code == 0
    assert outcome.err == "spanparse: warning: -: no known marker in this text\n"


def test_a_raw_prompt_may_come_from_standard_input(cli: Run) -> None:
    found = cli("inspect", "chatml", "--raw", "-", "--json", stdin=b"<|im_start|>user\nHi<|im_end|>\n").json
    assert found["messages"][0]["role"] == "user"


def test_a_raw_prompt_has_tokens(cli: Run, prompt: Path) -> None:
    assert cli("inspect", "chatml", "--raw", prompt, "--tokenizer", "hybrid", "--json").json["tokens"]["count"] > 0


def test_a_raw_prompt_has_no_conversation_beside_it(cli: Run, prompt: Path) -> None:
    assert "--raw FILE is a whole prompt" in cli("inspect", "chatml", "--raw", prompt, "--messages", prompt).error


def test_a_raw_prompt_that_is_missing_or_no_text_is_one_line(cli: Run, tmp_path: Path) -> None:
    assert "nothing.txt: No such file" in cli("inspect", "chatml", "--raw", tmp_path / "nothing.txt").error
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    assert "not UTF-8 (byte 2)" in cli("inspect", "chatml", "--raw", tmp_path / "bytes").error
