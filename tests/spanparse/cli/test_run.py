from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
QUESTION = "Hello there, when does the last boat to the island leave tonight, and is there room for a bicycle?"
HELLO = {"role": "user", "content": QUESTION}
TALK = [HELLO, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "How do you do?"}]
# One thread: a tiny model gains nothing from more, and a busy machine loses much.
FAST = ("--threads", 1, "--ctx", 1024)


@pytest.fixture
def requests(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: object) -> Path:
        path = tmp_path / "requests.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


def reports(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_every_request_gets_a_report_line_with_the_keys_of_the_contract(cli: Run, requests: Run) -> None:
    path = requests({"id": "first", "messages": [HELLO], "max_tokens": 4}, {"messages": TALK, "max_tokens": 2})
    found = cli("run", "hybrid", "--requests", path, *FAST, "--checkpoints", 2, "--token-ids", "--json")
    assert found.code == 0
    first, second = reports(found.out)
    assert (first["id"], second["id"]) == ("first", "2")
    for report in (first, second):
        assert report.keys() >= {"prompt_tokens", "restored", "evaluated", "reused", "ideal", "excess", "breaks"}
        assert report.keys() >= {"saves", "bytes", "seconds", "output", "finish", "token_ids"}
        assert report["seconds"].keys() >= {"render", "tokenize", "plan", "restore", "prefill", "save", "decode"}
        assert len(report["token_ids"]) == report["prompt_tokens"] == report["evaluated"] + report["reused"]
    assert second["restored"]["offset"] > 0


def test_outputs_are_verified_against_cold_runs(cli: Run, requests: Run) -> None:
    path = requests({"messages": [HELLO], "max_tokens": 4}, {"messages": TALK, "max_tokens": 4})
    found = cli("run", "recurrent", "--requests", path, *FAST, "--verify", "--json")
    assert found.code == 0
    assert [report["verify"]["identical"] for report in reports(found.out)] == [True, True]


def test_an_output_that_differs_from_the_cold_run_is_a_finding(
    cli: Run, requests: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runtime.verify import Verifier

    genuine = Verifier.check
    monkeypatch.setattr(Verifier, "check", lambda *arguments: replace(genuine(*arguments), identical=False))
    found = cli("run", "dense", "--requests", requests({"messages": [HELLO], "max_tokens": 1}), *FAST, "--verify")
    assert found.code == 1
    assert "NO" in found.out


def test_a_request_that_fails_is_a_finding_and_the_next_is_played(cli: Run, requests: Run) -> None:
    path = requests({"messages": [{"role": "user", "content": "word " * 2000}]}, {"messages": [HELLO], "max_tokens": 1})
    found = cli("run", "dense", "--requests", path, *FAST)
    assert found.code == 1
    assert "the context holds 1024" in found.out
    assert "length" in found.out


def test_the_table_says_why_more_than_the_ideal_was_evaluated(cli: Run, requests: Run) -> None:
    path = requests({"messages": [HELLO], "max_tokens": 1}, {"messages": TALK, "max_tokens": 1})
    out = cli("run", "hybrid", "--requests", path, *FAST, "--policy", "none").out
    assert "more than ideal: state-missing, common" in out


def test_another_template_may_replace_the_models_own(cli: Run, requests: Run) -> None:
    path = requests({"messages": [HELLO], "max_tokens": 1})
    own, other = (
        reports(cli("run", "dense", "--requests", path, *FAST, *options, "--json").out)[0]["prompt_tokens"]
        for options in ([], ["--template", "llama3"])
    )
    assert own != other


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-model"], "no such file, and no tiny model of that name (hybrid, "),
        (["hybrid", "--policy", "best"], "--policy: no policy best"),
        (["hybrid", "--template", "nowhere"], "nowhere: no such file"),
        (["README.md"], "README.md: llama.cpp cannot load it"),
    ],
)
def test_what_cannot_run_is_named(cli: Run, requests: Run, arguments: list[str], said: str) -> None:
    model, *options = arguments
    assert said in cli("run", model, "--requests", requests({"messages": [HELLO]}), *options).error


def test_a_faulty_request_names_its_line_and_field(cli: Run, requests: Run) -> None:
    path = requests({"messages": [HELLO]}, {"messages": [{"role": "user"}]})
    assert cli("run", "hybrid", "--requests", path).error == f"{path} line 2, messages[0].content: missing"


def test_without_the_runtime_the_extra_is_named(cli: Run, requests: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    error = cli("run", "hybrid", "--requests", requests({"messages": [HELLO]})).error
    assert "needs the [runtime] extra" in error
    assert "needs the [runtime] extra" in cli("demo").error


@pytest.mark.parametrize(("option", "value"), [("--batch", 3), ("--ctx", 255), ("--ubatch", 0), ("--threads", 100_000)])
def test_a_number_out_of_its_range_names_the_option(cli: Run, option: str, value: int) -> None:
    assert f"Invalid value for '{option}'" in cli("run", "dense", "--requests", "none.jsonl", option, value).error


PICTURES = Path(__file__).resolve().parents[3] / "docs" / "examples" / "picture.jsonl"


def test_images_are_evaluated_with_a_projector(cli: Run) -> None:
    found = cli("run", "hybrid", "--mmproj", "qwen3vl", "--requests", PICTURES, *FAST, "--verify", "--json")
    assert found.code == 0
    first, goes_on, again = reports(found.out)
    assert first["prompt_tokens"] > 78
    for report in (goes_on, again):
        assert report["reused"] > 78 > report["evaluated"]
        assert report["verify"]["identical"]


def test_images_without_a_projector_fail_by_the_name_of_their_part(cli: Run) -> None:
    found = cli("run", "hybrid", "--requests", PICTURES, *FAST, "--json")
    assert found.code == 1
    assert all(report["error"].startswith("messages[0].content[1]: ") for report in reports(found.out))


def test_a_projector_that_is_not_there_is_one_line(cli: Run) -> None:
    found = cli("run", "hybrid", "--mmproj", "nowhere.gguf", "--requests", PICTURES, *FAST)
    assert (found.code, found.err) == (2, "spanparse: nowhere.gguf: no such file\n")
