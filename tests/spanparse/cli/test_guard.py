from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from spanparse.cli.guard import run_guarded

Run = Callable[..., Any]
SPANPARSE = (sys.executable, "-c", "import sys; from spanparse.cli import main; sys.exit(main())")


def code_of(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """What a command that raises `error` leaves: exit code and standard error."""
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    return run_guarded(app, ["--"]), capsys.readouterr().err


def test_no_arguments_show_the_help(cli: Run) -> None:
    found = cli()
    assert found.code == 0
    assert "inspect" in found.out


def test_the_help_lists_only_commands_that_work(cli: Run) -> None:
    words = set(cli("--help").out.split())
    assert words >= {"inspect", "plan", "model", "run", "demo"}
    assert not words & {"diff", "lint", "mask", "serve", "bench"}


def test_the_version_is_that_of_the_package(cli: Run) -> None:
    assert cli("--version").out.startswith("spanparse 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["inspect"], "Missing argument 'SOURCE' (see spanparse inspect --help)"),
        (["inspect", "chatml", "--colour"], "No such option: --colour"),
        (["plan", "chatml", "--checkpoints", "many"], "Invalid value for '--checkpoints'"),
        (["inspect", "chatml", "--set", "x"], "--set: should be key=value"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_option(cli: Run, arguments: list[str], said: str) -> None:
    assert said in cli(*arguments).error


def test_an_interrupt_is_one_line(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spanparse.cli.prompt.load_prompt", interrupted)
    assert cli("inspect", "chatml").error == "interrupted"


def test_an_operating_system_error_names_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(28, "No space left on device", "/a/b")
    assert code_of(error, capsys) == (2, "spanparse: /a/b: No space left on device\n")


def test_a_bug_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = code_of(KeyError("x\ny"), capsys)
    assert code == 2
    assert line.startswith("spanparse: internal error, KeyError: ")
    assert line.count("\n") == 1


def test_a_bug_shows_where_it_is_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANPARSE_TRACEBACK", "1")
    with pytest.raises(KeyError):
        code_of(KeyError("x"), capsys)


def test_a_reader_that_stops_early_is_no_error() -> None:
    with subprocess.Popen([*SPANPARSE, "inspect", "chatml", "--json"], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_closed_standard_input_is_an_error_only_where_it_is_read() -> None:
    closed = ["bash", "-c", 'exec "$@" <&-', "-", *SPANPARSE]
    assert subprocess.run([*closed, "inspect", "chatml"], capture_output=True, check=False).returncode == 0
    for arguments in (["inspect", "-"], ["inspect", "chatml", "--messages", "-"]):
        found = subprocess.run([*closed, *arguments], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (2, "spanparse: -: standard input is closed\n")


def test_a_full_disk_is_one_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with open("/dev/full", "wb") as full:
        found = subprocess.run([*SPANPARSE, "inspect", "chatml", "--json"], stdout=full, stderr=-1, check=False)
    assert found.returncode == 2
    assert found.stderr == b"spanparse: standard output: No space left on device\n"


def in_shell(script: str) -> tuple[int, str, str]:
    """Exit code and both streams of a shell script in which `"$@"` is the command."""
    found = subprocess.run(["bash", "-c", script, "-", *SPANPARSE], capture_output=True, text=True, check=False)
    return found.returncode, found.stdout, found.stderr


def test_closed_standard_output_is_one_line() -> None:
    assert in_shell('"$@" inspect chatml >&-') == (2, "", "spanparse: standard output is closed\n")


def test_a_table_whose_reader_stops_early_is_no_error() -> None:
    code, out, err = in_shell('"$@" inspect chatml --tokenizer hybrid --tokens | head -1; exit "${PIPESTATUS[0]}"')
    assert (code, out.count("\n"), err) == (0, 1, "")


@pytest.mark.parametrize("target", ["&-", "/dev/full"])
def test_an_error_that_cannot_be_told_keeps_its_exit_code(target: str) -> None:
    assert in_shell(f'"$@" inspect no-such-thing 2>{target}') == (2, "", "")
