"""What stands between a command and the shell: exit codes, one-line errors, no traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from spanparse.cli.output import error_line

COULD_NOT_RUN: Final = 2
_FIRST_FREE: Final = 3  # after the numbers of the three standard streams
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TRACEBACK_VARIABLE: Final = "SPANPARSE_TRACEBACK"
# By module name, so that reporting an error does not import the packages that did not raise it.
_ERROR_MODULES: Final = frozenset({"spanparse.errors", "planner.errors", "runtime.errors"})


def run_guarded(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs `app` and returns the exit code. Lets no exception out, whatever a command raises, but an interrupt."""
    _fill_standard_streams()
    if sys.stdout is None:
        error_line("standard output is closed")
        return COULD_NOT_RUN
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets its escape instead of an error.
            stream.reconfigure(errors="backslashreplace")
    try:
        _invoke(app, arguments)
        sys.stdout.flush()
    except typer.Exit as exit_:
        return exit_.exit_code
    except typer.TyperException as error:
        return _usage_error(error)
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is left to flush at exit must not fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get(_TRACEBACK_VARIABLE):
            raise
        error_line(_described(error))
    else:
        return 0
    return COULD_NOT_RUN


def _fill_standard_streams() -> None:
    """Where the caller closed a standard stream, Python has None and the next file opened would get its number."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while os.open(os.devnull, os.O_RDWR) < _FIRST_FREE:
        pass
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _invoke(app: typer.Typer, arguments: Sequence[str]) -> None:
    # Not typer's own `main`, which answers an interrupt and a broken pipe with codes that are not ours.
    command = typer.main.get_command(app)
    with command.make_context("spanparse", list(arguments) or ["--help"]) as context:
        command.invoke(context)


def _described(error: Exception) -> str:
    if any(kind.__module__ in _ERROR_MODULES for kind in type(error).__mro__):
        return str(error)
    if isinstance(error, OSError):
        # Of all that is written, only the standard streams have no name.
        where = error.filename or ("standard output" if error.errno in _FULL else None)
        return (f"{where}: " if where else "") + (error.strerror or str(error))
    return f"internal error, {type(error).__name__}: {error} ({_TRACEBACK_VARIABLE}=1 shows where)"


def _usage_error(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    # The message alone leaves out which option it is about; the formatted one has it.
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    error_line(f"{message.rstrip('.')} (see {context.command_path if context else 'spanparse'} --help)")
    return COULD_NOT_RUN
