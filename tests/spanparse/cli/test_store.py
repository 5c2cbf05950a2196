"""`spanparse run` with a store: conversations that go on in another process, and what cannot be had said in a line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_cpp", reason="running a model needs the [runtime] extra")

Run = Callable[..., Any]
FAST = ("--threads", 1, "--ctx", 1024)
QUESTION = {"role": "user", "content": "Hello there, when does the last boat to the island leave tonight?"}


@pytest.fixture
def requests(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: object) -> Path:
        path = tmp_path / "requests.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


def reports(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("kind", ["hybrid", "swa", "recurrent", "dense"])
def test_a_conversation_goes_on_in_another_process(cli: Run, requests: Run, tmp_path: Path, kind: str) -> None:
    arguments = ("run", kind, *FAST, "--disk", tmp_path / "states", "--json", "--requests")
    (first,) = reports(cli(*arguments, requests({"messages": [QUESTION], "max_tokens": 4})).out)
    answer = {"role": "assistant", "content": first["output"]}
    grown = {"messages": [QUESTION, answer, {"role": "user", "content": "And tomorrow?"}], "max_tokens": 4}
    again, second = reports(cli(*arguments, requests({"messages": [QUESTION], "max_tokens": 4}, grown)).out)
    assert (again["evaluated"], again["restored"]["from"], again["output"]) == (0, "disk", first["output"])
    (third,) = reports(cli(*arguments, requests(grown)).out)
    assert third["restored"]["from"] == "disk"
    assert third["evaluated"] == 0
    assert third["output"] == second["output"]


def test_a_process_that_is_killed_leaves_its_conversations(cli: Run, requests: Run, tmp_path: Path) -> None:
    path = requests(*({"messages": [{**QUESTION, "name": str(i)}], "max_tokens": 4} for i in range(1000)))
    command = ["run", "hybrid", *FAST, "--disk", tmp_path / "states", "--json", "--requests", path]
    child = subprocess.Popen([sys.executable, "-m", "spanparse", *map(str, command)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    first = json.loads(child.stdout.readline())
    for _ in range(20):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    (again,) = reports(cli(*command[:-1], requests({"messages": [QUESTION], "max_tokens": 4})).out)
    assert (again["evaluated"], again["restored"]["from"], again["output"]) == (0, "disk", first["output"])


def test_a_chat_goes_on_from_what_another_left(cli: Run, tmp_path: Path) -> None:
    arguments = ("run", "hybrid", *FAST, "--disk", tmp_path / "states", "--stats")
    assert "0 reused, " in cli(*arguments, stdin=b"Hello there, when does the last boat leave?\n").out
    assert (
        " reused from disk, 0 evaluated" in cli(*arguments, stdin=b"Hello there, when does the last boat leave?\n").out
    )


def test_states_of_another_precision_are_refused_with_the_reason(cli: Run, requests: Run, tmp_path: Path) -> None:
    arguments = ("run", "hybrid", *FAST, "--disk", tmp_path / "states", "--requests")
    path = requests({"id": "a", "messages": [QUESTION], "max_tokens": 1})
    cli(*arguments, path)
    found = cli(*arguments, path, "--verify")
    assert found.code == 0
    assert "not restored from disk: saved with keys and values f16, here f32" in found.out


def test_a_server_that_does_not_answer_is_a_warning(cli: Run, requests: Run, tmp_path: Path) -> None:
    pytest.importorskip("redis", reason="sharing states needs the [redis] extra")
    path = requests({"messages": [QUESTION], "max_tokens": 1}, {"messages": [QUESTION], "max_tokens": 1})
    found = cli("run", "hybrid", *FAST, "--redis", f"unix://{tmp_path}/nobody", "--requests", path, "--json")
    assert found.code == 0
    assert len(reports(found.out)) == 2
    lines = found.err.splitlines()
    assert lines[0].startswith("spanparse: warning: redis fails at reading states: ")
    assert len(lines) <= 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--disk", "/proc/nowhere"), "disk: /proc/nowhere: No such file or directory"),
        (("--redis", "nowhere"), "redis: not a Redis URL: "),
        (("--disk-bytes", 1000), "--disk-bytes needs --disk"),
        (("--redis-bytes", 1000), "--redis-bytes needs --redis"),
        (("--ram-bytes", 0), "Invalid value for '--ram-bytes'"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_line(cli: Run, requests: Run, options: Any, said: str) -> None:
    path = requests({"messages": [QUESTION], "max_tokens": 1})
    assert said in cli("run", "hybrid", *FAST, "--requests", path, *options).error


def test_a_folder_that_may_not_be_written_is_said_in_a_line(cli: Run, requests: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = requests({"messages": [QUESTION], "max_tokens": 1})
    error = cli("run", "hybrid", *FAST, "--requests", path, "--disk", tmp_path / "file" / "states").error
    assert error.endswith("/file/states: Not a directory")
