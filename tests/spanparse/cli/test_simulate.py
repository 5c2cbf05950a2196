from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

DIALOGUE = [
    {"role": "system", "content": "You answer questions about a ferry, from its timetable only. " * 8},
    {"role": "user", "content": "When does the last boat leave?"},
    {"role": "assistant", "content": "At 20:15.", "reasoning_content": "The timetable says 20:15. " * 4},
    {"role": "user", "content": "And on Sunday?"},
    {"role": "assistant", "content": "At 18:00.", "reasoning_content": "Sunday has its own column. " * 4},
    {"role": "user", "content": "Thanks."},
]
COLUMNS = ["in", "out", "blocks", "best_prev", "lcp_best", "depth", "stop"]
ROWS = [
    [20_000, 90, 312, -1, 0, 0, "tool_use"],
    [20_900, 90, 326, 0, 312, 0, "tool_use"],
    [3000, 90, 46, 0, 11, 1, "end_turn"],
    [21_500, 90, 335, 1, 326, 0, "end_turn"],
    [22_000, 90, 343, 3, 200, 0, "tool_use"],
]
SESSION = {"id": "s", "bs": 64, "tool_tokens": 640, "system_tokens": 320, "cols": COLUMNS, "reqs": ROWS}


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    path = tmp_path / "blocks.jsonl"
    path.write_text("\n".join(json.dumps({**SESSION, "id": name}) for name in ("first", "second", "third")))
    return path


@pytest.fixture
def dialogues(tmp_path: Path) -> Path:
    path = tmp_path / "dialogues.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, "messages": DIALOGUE}) for name in ("first", "second")))
    return path


def test_the_json_has_every_key_of_the_contract(cli: Run, blocks: Path) -> None:
    found = cli("simulate", blocks, "--json").json
    assert (found["schema_version"], found["trace"], found["requests"]) == (1, str(blocks), 9)
    (row,) = found["results"]
    assert row.keys() >= {
        "policy", "checkpoints", "evaluated", "bound", "ratio", "full_resets", "replays_over_4096", "saves",
        "replay_p50", "replay_p95", "replay_p99", "seconds", "bytes", "reasons",
    }  # fmt: skip
    assert (row["policy"], row["checkpoints"], row["bytes"]) == ("adaptive", 8, None)
    assert row["ratio"] == pytest.approx(row["evaluated"] / row["bound"], abs=1e-5)
    assert row["bound"] <= row["optimum"] <= row["evaluated"]


def test_in_a_tree_the_optimum_lies_between_two_bounds(cli: Run, blocks: Path) -> None:
    options = ("--model", "tree", "--checkpoints", 0, "--checkpoints", 2)
    for row in cli("simulate", blocks, *options, "--json").json["results"]:
        assert row["bound"] <= row["optimum_lower"] <= row["optimum"] <= row["evaluated"]
    assert cli("simulate", blocks, "--json").json["results"][0]["optimum_lower"] is None


def test_policies_and_budgets_are_swept_in_one_call(cli: Run, blocks: Path) -> None:
    options = ("--policy", "adaptive", "--policy", "shallow", "--checkpoints", 1, "--checkpoints", 4)
    rows = cli("simulate", blocks, *options, "--json").json["results"]
    assert [(row["policy"], row["checkpoints"]) for row in rows] == [
        ("adaptive", 1), ("adaptive", 4), ("shallow", 1), ("shallow", 4),
    ]  # fmt: skip


def test_all_policies_can_be_asked_for(cli: Run, blocks: Path) -> None:
    from planner import POLICIES

    rows = cli("simulate", blocks, "--policy", "all", "--json").json["results"]
    assert [row["policy"] for row in rows] == list(POLICIES)


def test_sessions_are_numbered_from_one(cli: Run, blocks: Path) -> None:
    requests = [cli("simulate", blocks, "--sessions", w, "--json").json["requests"] for w in ("all", "odd", "even")]
    assert requests == [9, 6, 3]


def test_a_tree_looks_at_sub_agents_and_a_line_does_not(cli: Run, blocks: Path) -> None:
    options = [("line",), ("tree",), ("line", "--depth", "all"), ("tree", "--depth", "main")]
    found = [cli("simulate", blocks, "--model", *option, "--json").json["requests"] for option in options]
    assert found == [9, 12, 12, 9]


def test_the_size_of_a_checkpoint_gives_bytes(cli: Run, blocks: Path) -> None:
    row = cli("simulate", blocks, "--state-bytes", 10, "--checkpoint-bytes", 35, "--json").json["results"][0]
    assert 0 < row["bytes"] <= 35


def test_dialogues_are_rendered_with_a_request_for_each_answer(cli: Run, dialogues: Path) -> None:
    found = cli("simulate", dialogues, "--tokenizer", "hybrid", "--json").json
    assert found["requests"] == 2
    assert found["results"][0]["ratio"] < 1.2


def test_dropped_reasoning_costs_a_policy_without_states_all_of_the_prompt(cli: Run, dialogues: Path) -> None:
    options = ("--tokenizer", "hybrid", "--template", "chatml", "--policy", "none")
    row = cli("simulate", dialogues, *options, "--json").json["results"][0]
    assert row["ratio"] > 1.5


@pytest.mark.parametrize("told", [True, False], ids=["by option", "by their fields"])
def test_a_file_of_requests_is_one_session(cli: Run, tmp_path: Path, told: bool) -> None:
    path = tmp_path / "requests.jsonl"
    extra = {} if told else {"max_tokens": 1}
    path.write_text("\n".join(json.dumps({"messages": DIALOGUE[:end], **extra}) for end in (2, 4, 6)))
    found = cli("simulate", path, *["--requests"] * told, "--tokenizer", "hybrid", "--json").json
    assert found["requests"] == 2


def test_a_table_tells_ratio_and_reasons(cli: Run, blocks: Path) -> None:
    out = cli("simulate", blocks, "--policy", "none").out
    assert "3 sessions, 9 later requests" in out
    assert "none 8: not continued: state-missing 3" in out


def test_a_compressed_trace_is_read(cli: Run, blocks: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(blocks.read_bytes()))
    assert cli("simulate", packed, "--json").json["requests"] == 9


def test_a_plot_is_written(cli: Run, blocks: Path, tmp_path: Path) -> None:
    cli("simulate", blocks, "--plot", tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<svg ")


def test_advice_names_a_budget_and_the_flags_of_llama_cpp(cli: Run, blocks: Path) -> None:
    found = cli("simulate", blocks, "--advise", "--state-bytes", 10, "--json").json
    assert found["checkpoints"] in (1, 2, 4, 8, 16, 32)
    assert found["adaptive"]["bytes"] <= 10 * found["checkpoints"]
    assert found["llama_cpp"]["flags"].keys() == {"ctx_checkpoints", "checkpoint_min_step"}
    assert found["llama_cpp"]["best"]["seconds"] <= found["llama_cpp"]["default"]["seconds"]


def test_advice_is_told_in_words(cli: Run, blocks: Path) -> None:
    out = cli("simulate", blocks, "--advise", "--state-bytes", 2**20).out
    assert "MiB): more gain less than" in out
    assert "--ctx-checkpoints" in out
    assert "Expected gain of the first over llama.cpp's default: " in out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--model", "ring"), "--model: no model ring"),
        (("--depth", "deep"), "--depth: no depth deep"),
        (("--sessions", "some"), "--sessions: some is none of"),
        (("--policy", "best"), "--policy: no policy best"),
        (("--checkpoint-bytes", 5), "--checkpoint-bytes needs --state-bytes"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(cli: Run, blocks: Path, options: Any, complaint: str) -> None:
    assert cli("simulate", blocks, *options).error.startswith(complaint)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no conversations"),
        ("{", ":1: not valid JSON"),
        ("[1]", ":1: should be an object with messages"),
        ('{"messages": [{"role": 5}]}', ":1, messages[0].role"),
        ('{"reqs": []}', ":1: bs: None is not an integer"),
    ],
)
def test_a_trace_that_is_none_is_named(cli: Run, tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    error = cli("simulate", path, "--tokenizer", "hybrid").error
    assert error.startswith(str(path))
    assert complaint in error


def test_conversations_without_a_tokenizer_say_so(cli: Run, dialogues: Path) -> None:
    assert "conversations need a tokenizer" in cli("simulate", dialogues).error


@pytest.mark.parametrize("template", ["chatml", "gpt-oss", "gemma4"])
def test_templates_that_drop_reasoning_stay_within_three_hundredths_of_the_bound(cli: Run, template: str) -> None:
    options = ("--tokenizer", "hybrid", "--template", template, "--policy", "adaptive", "--policy", "none")
    ours, none = cli("simulate", "docs/examples/dialogues.jsonl", *options, "--json").json["results"]
    assert ours["ratio"] <= 1.03 < none["ratio"]


def test_a_trace_without_requests_is_replayed_and_gives_no_advice(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_text(json.dumps({**SESSION, "reqs": []}))
    assert cli("simulate", path, "--json").json["requests"] == 0
    assert cli("simulate", path, "--advise").error == f"{path}: holds no requests to advise on"


def test_numbers_that_no_memory_could_hold_are_named(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_text(json.dumps({**SESSION, "reqs": [[2**40, 0, 2**34, -1, 0, 0, ""]]}))
    assert "reqs[0]" in cli("simulate", path).error


def test_a_conversation_that_the_template_refuses_is_named(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "refused"
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
    ]
    path.write_text(json.dumps({"id": "two users", "messages": messages}))
    error = cli("simulate", path, "--tokenizer", "hybrid", "--template", "gemma3").error
    assert error.startswith("two users, request 1: ")
