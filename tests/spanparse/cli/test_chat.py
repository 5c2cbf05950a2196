"""The chat of `spanparse run`: line by line, from a pipe, and in a terminal."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("llama_cpp", reason="a chat needs the [runtime] extra")

from rich.console import Console

from runtime import Engine
from runtime.tiny import ensure_model
from spanparse.cli.chat import Chat, new_session
from spanparse.sources import load_source

Run = Callable[..., Any]
FAST = ("--threads", 1, "--ctx", 512)
# The terminal on standard input becomes the one whose keys interrupt the process.
SPANPARSE = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from spanparse.cli import main; sys.exit(main())"
)


class Talk:
    """A chat with short answers, and what it shows."""

    def __init__(self, engine: Engine, *, stats: bool = False) -> None:
        self.out = io.StringIO()
        self.session = new_session(engine)
        self.session.max_tokens = 8
        self.chat = Chat(self.session, Console(file=self.out, width=80), stats=stats)

    def enter(self, *lines: str) -> str:
        """What the chat answers to some lines."""
        begin = len(self.out.getvalue())
        for line in lines:
            assert self.chat.enter(line)
        return self.out.getvalue()[begin:]

    @property
    def said(self) -> list[str]:
        return [f"{message['role']}: {message['content']}" for message in self.session.messages]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(ensure_model("hybrid"), n_ctx=1024, n_threads=1) as made:
        yield made


def test_an_answer_is_shown_and_remembered(engine: Engine) -> None:
    talk = Talk(engine)
    shown = talk.enter("Hello")
    assert talk.said[0] == "user: Hello"
    answer = talk.session.messages[1]["content"]
    assert shown.replace("\n", "") == answer.replace("\n", "")
    talk.enter("", "   ", "And now?")
    assert len(talk.said) == 4


def test_another_answer_to_the_same_is_another_one(engine: Engine) -> None:
    talk = Talk(engine)
    talk.enter("Hello")
    first = talk.said
    talk.enter("/regenerate")
    assert talk.said[0] == first[0]
    assert talk.said[1] != first[1]


def test_what_was_said_can_be_taken_back_and_forgotten(engine: Engine) -> None:
    talk = Talk(engine)
    talk.enter("/system Be brief.", "Hello")
    before = talk.said
    talk.enter("And now?", "/undo")
    assert talk.said == before
    talk.enter("/reset")
    assert talk.said == ["system: Be brief."]
    talk.enter("/system You are a ferry clerk.")
    assert talk.said == ["system: You are a ferry clerk."]
    talk.enter("/system")
    assert talk.said == []


def test_an_answer_tells_in_one_line_what_it_cost(engine: Engine) -> None:
    talk = Talk(engine)
    assert talk.enter("/stats") == "nothing has been answered yet\n"
    talk.enter("Hello")
    (line,) = talk.enter("/stats").splitlines()
    assert line.startswith("prompt ")
    assert " 0 reused, " in line
    assert " to the first token · 8 generated in " in line
    talk = Talk(engine, stats=True)
    assert talk.enter("Hello").splitlines()[-1].startswith("prompt ")


def test_errors_take_one_line_and_keep_the_conversation(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(engine)
    talk.enter("Hello")
    before = talk.said
    talk.enter("/what", "word " * 1500)
    assert talk.said == before
    first, second = capsys.readouterr().err.splitlines()
    assert first == "spanparse: /what: no such command, see /help"
    assert second.endswith("the context holds 1024")
    talk.enter("/reset", "/undo", "/regenerate")
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert talk.chat.failed


def test_a_conversation_that_the_template_refuses_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    with Engine(ensure_model("dense"), template=load_source("gemma3"), n_ctx=512, n_threads=1) as engine:
        talk = Talk(engine)
        talk.session.messages = ({"role": "assistant", "content": "Hello"},)
        talk.enter("Hello")
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupted_answer_is_kept_as_far_as_it_came(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(engine)
    talk.session.max_tokens = 900
    shown = Chat._show
    interrupts = iter([KeyboardInterrupt])

    def interrupted(self: Chat, stream: Any) -> None:
        for interrupt in interrupts:
            next(stream)
            raise interrupt
        shown(self, stream)

    monkeypatch.setattr(Chat, "_show", interrupted)
    talk.enter("Hello")
    assert talk.said[0] == "user: Hello"
    assert talk.session.messages[1]["content"]
    talk.session.max_tokens = 8
    talk.enter("And now?")
    assert len(talk.said) == 4


def test_text_of_a_model_cannot_act_on_the_terminal(engine: Engine) -> None:
    talk = Talk(engine)
    talk.chat._show(iter(["a\x1b[31m", "b\n[bold]c"]))  # type: ignore[arg-type]
    assert talk.out.getvalue() == "a␛[31mb\n[bold]c"


def test_lines_are_read_from_a_pipe(cli: Run) -> None:
    found = cli("run", "hybrid", *FAST, "--stats", stdin=b"Hello\n/help\n/quit\nnever read\n")
    assert found.code == 0
    assert "prompt 11 tokens: " in found.out.replace("\n", " ")
    assert "/regenerate" in found.out
    assert not found.out.startswith(">")
    assert cli("run", "hybrid", *FAST, stdin=b"/nothing\n").code == 1
    assert cli("run", "hybrid", *FAST, stdin=b"").code == 0


def test_a_line_from_a_pipe_that_is_no_text_is_named_and_the_others_are_answered(cli: Run) -> None:
    found = cli("run", "hybrid", *FAST, "--stats", stdin=b"Hel\xfflo\nHello\n")
    assert found.code == 1
    assert found.err.startswith("spanparse: a line that is no text in ")
    assert found.err.endswith(": byte 0xff at 3\n")
    assert "prompt 11 tokens: " in found.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--json"], "--verify, --token-ids and --json need --requests"),
        (["--verify"], "--verify, --token-ids and --json need --requests"),
        (["--requests", "none.jsonl", "--stats"], "--stats is for a chat"),
    ],
)
def test_options_of_the_other_way_to_run_are_refused(cli: Run, options: list[str], said: str) -> None:
    assert said in cli("run", "hybrid", *options).error


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, *arguments: object) -> None:
        self.shown = ""
        self._master, slave = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", SPANPARSE, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "80"},
            start_new_session=True,
        )
        os.close(slave)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read_until(self, text: str, seconds: float = 60) -> str:
        """What is shown up to and including `text`."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert select.select([self._master], [], [], max(0, end - time.monotonic()))[0], self.shown
            self.shown += os.read(self._master, 4096).decode("utf-8", "replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def exit_code(self) -> int:
        with suppress(OSError):  # Linux' way to say that nobody has the terminal open any more
            while os.read(self._master, 4096):
                pass
        os.close(self._master)
        return self._process.wait()


def test_in_a_terminal_keys_end_an_answer_and_the_chat() -> None:
    ensure_model("hybrid")
    terminal = Terminal("run", "hybrid", "--threads", 1, "--ctx", 16384)
    terminal.read_until("> ")
    terminal.type("Hello\n")
    terminal.read_until("Hello\r\n")
    terminal.read_until(" ")
    terminal.type("\x03")
    terminal.read_until("\r\n> ")
    # As a person would: what comes between showing the prompt and waiting for keys, Python's readline overlooks.
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.read_until("> ")
    terminal.type("/stats\n")
    stats = terminal.read_until("> ")
    assert "cancelled" in stats.replace("\r\n", "") or "length" in stats
    terminal.type("\x04")
    assert terminal.exit_code() == 0
