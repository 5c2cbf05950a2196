from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
PLAN = ("plan", "hybrid", "--messages", "fixtures/conversations/chatml.json")


def test_the_json_has_every_key_of_the_contract(cli: Run) -> None:
    found = cli(*PLAN, "--checkpoints", 3, "--json").json
    assert found["schema_version"] == 1
    assert found.keys() >= {
        "restore", "steps", "evict", "expected_replay_tokens", "optimal_replay_tokens", "expected_replay_seconds",
        "baselines",
    }  # fmt: skip
    for step in found["steps"]:
        assert step.keys() >= {"begin", "end", "save", "kind", "reason"}
    assert 0 < sum(step["save"] for step in found["steps"]) <= 3


def test_the_steps_tile_the_prompt_that_inspect_counts(cli: Run) -> None:
    steps = cli(*PLAN, "--json").json["steps"]
    count = cli("inspect", *PLAN[1:], "--json").json["tokens"]["count"]
    assert [steps[0]["begin"], *(step["end"] for step in steps)] == [*(step["begin"] for step in steps), count]


def test_stored_checkpoints_are_restored_from(cli: Run, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text('[{"offset": 40}, {"offset": 90, "age": 2}]')
    assert cli(*PLAN, "--existing", stored, "--json").json["restore"]["offset"] == 90


def test_stored_checkpoints_past_the_common_prefix_are_not(cli: Run, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text('{"existing": [{"offset": 40}, {"offset": 90}], "common_prefix": 60}')
    found = cli(*PLAN, "--existing", stored, "--json").json
    assert found["restore"]["offset"] == 40
    assert 90 in [eviction["offset"] for eviction in found["evict"]]


def test_a_dense_memory_needs_no_checkpoints(cli: Run) -> None:
    found = cli("plan", "dense", "--json").json
    assert not any(step["save"] for step in found["steps"])


def test_the_plan_is_explained_in_words(cli: Run) -> None:
    out = cli("plan", "hybrid", "--policy", "none").out
    assert "policy none" in out
    assert "built-in sample conversation" in out


def test_a_whole_request_can_be_read_from_a_file(cli: Run, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"schema_version": 1, "prompt_tokens": 1000, "candidates": []}))
    assert cli("plan", "--request", request, "--json").json["steps"][-1]["end"] == 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan"], "plan needs SOURCE or --request FILE, one of the two"),
        (["plan", "chatml"], "chatml: a plan needs a tokenizer"),
        (["plan", "hybrid", "--policy", "best"], "--policy: no policy best (adaptive, "),
        (["plan", "hybrid", "--memory", "leaky"], "--memory: no kind of memory leaky (dense, swa, "),
        (["plan", "hybrid", "--checkpoint-bytes", 10], "--checkpoint-bytes needs --state-bytes"),
        (["plan", "hybrid", "--checkpoint-bytes", 0], "--checkpoint-bytes needs --state-bytes"),
        (["plan", "hybrid", "--tokenizer", "no/such.json"], "no/such.json"),
    ],
)
def test_an_impossible_plan_names_what_is_wrong(cli: Run, arguments: list[object], said: str) -> None:
    assert said in cli(*arguments).error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "stored.json: not valid JSON"),
        ('{"offsets": []}', "stored.json: offsets: no such field"),
        ('[{"offset": -1}]', "stored.json: existing[0].offset"),
        ('[{"offset": 4}, {"offset": 99999}]', "stored.json: existing[1].offset: 99999 is past the end of the prompt"),
        ('{"common_prefix": 99999}', "stored.json: common_prefix: 99999"),
        ('"x"', "stored.json: existing"),
    ],
)
def test_a_faulty_list_of_checkpoints_names_the_field(cli: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "stored.json").write_text(text)
    assert said in cli(*PLAN, "--existing", tmp_path / "stored.json").error


def test_a_faulty_request_names_file_and_field(cli: Run, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"schema_version": 1, "prompt_tokens": 0}))
    assert cli("plan", "--request", request).error.startswith(f"{request}: prompt_tokens: ")


@pytest.mark.parametrize("option", [("--checkpoints", 8), ("--policy", "adaptive"), ("--no-generation-prompt",)])
def test_a_whole_request_excludes_the_options_that_make_one(cli: Run, tmp_path: Path, option: tuple[object]) -> None:
    found = cli("plan", "--request", tmp_path / "request.json", *option)
    assert found.error == f"--request FILE is a whole request: no {option[0]}"


@pytest.mark.parametrize("policy", ["adaptive", "near-end-pair", "every-n"])
def test_no_state_is_saved_inside_an_image(cli: Run, policy: str) -> None:
    pytest.importorskip("llama_cpp", reason="a projector needs the [runtime] extra")
    arguments = ("hybrid", "--messages", "docs/examples/picture.json", "--mmproj", "qwen3vl", "--json")
    (media,) = cli("inspect", *arguments).json["tokens"]["media"]
    steps = cli("plan", *arguments, "--policy", policy).json["steps"]
    assert steps[-1]["end"] == 99
    inside = range(media["begin"] + 1, media["begin"] + media["n_tokens"])
    assert not [step["end"] for step in steps if step["end"] in inside]


def test_without_the_length_of_its_media_there_is_no_plan(cli: Run, tmp_path: Path) -> None:
    messages = tmp_path / "messages.json"
    messages.write_text('[{"role": "user", "content": [{"type": "image"}]}]')
    found = cli("plan", "hybrid", "--messages", messages)
    assert found.code == 2
    assert "hybrid: a plan needs to know how many tokens its media take" in found.err


def test_a_plan_knows_what_the_template_will_rewrite_inside_a_message(cli: Run, tmp_path: Path) -> None:
    template, messages = tmp_path / "reminding.jinja", tmp_path / "messages.json"
    template.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% if loop.last and m.role == 'user' %}{{ ' Be brief.' * 40 }}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    messages.write_text(json.dumps([{"role": "user", "content": "Look again. " * 20}]))
    arguments = (template, "--messages", messages, "--tokenizer", "hybrid", "--json")
    likely = [
        step["end"] for step in cli("plan", *arguments).json["steps"] if step["kind"] == "likely" and step["save"]
    ]
    tokens = cli("inspect", *arguments, "--tokens").json["tokens"]["messages"][0]
    assert len(likely) == 1
    assert tokens["begin"] + 40 < likely[0] < tokens["end"] - 40
