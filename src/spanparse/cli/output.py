"""Writing to the two standard streams: JSON, tables, one-line errors, progress; never raw control characters."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.terminal_theme import MONOKAI

# Templates and messages are foreign text: terminal escapes and direction overrides in them must not act.
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_UNSAFE_IN_JSON: Final = _UNSAFE.pattern.replace(r"\x00-\x1f", "")
_LONGEST_LINE: Final = 500
_USUAL_WIDTH: Final = 80
# What a window of 1200 pixels shows in a browser's usual font.
_PAGE_WIDTH: Final = 120
# The placeholders are those of `Console.export_html`.
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<title>spanparse</title>
<style>
body {{ color: {foreground}; background-color: {background}; }}
pre {{ font-family: Menlo, 'DejaVu Sans Mono', Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }}
{stylesheet}</style>
</head>
<body>
<pre>{code}</pre>
</body>
</html>
"""


def printable(text: str) -> str:
    """The text with every character that could act on a terminal shown instead: ␛ for C0 controls, else its escape."""
    return _UNSAFE.sub(_shown, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def one_line(text: str) -> str:
    """The text fit for one line of an error: newlines become spaces, what is too long loses its middle."""
    line = printable(" ".join(text.split()))
    if len(line) <= _LONGEST_LINE:
        return line
    # What it is about stands in front, what is wrong at the end.
    half = _LONGEST_LINE // 2
    return f"{line[:half]}…{line[1 - half :]}"


def error_line(text: str) -> None:
    """One line on standard error."""
    # Whoever cannot be told still gets the exit code.
    with contextlib.suppress(OSError):
        # Not through rich: it would wrap the line and read markup in it.
        sys.stderr.write(f"spanparse: {one_line(text)}\n")
        sys.stderr.flush()


def warning_line(text: str) -> None:
    """One line on standard error that does not stop the command."""
    error_line(f"warning: {text}")


def write_json(value: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """A JSON document on standard output; on one line if `indent` is None."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", indent=indent)
    # JSON has escaped what is below a space but for the line ends of `indent`; half a surrogate pair has no UTF-8.
    sys.stdout.write(re.sub(_UNSAFE_IN_JSON, lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        # rich would end the process with 1; a reader that stops early is no finding.
        raise BrokenPipeError


def console() -> Console:
    """Where a person reads: standard output, coloured if it is a terminal."""
    screen = _Screen(highlight=False)
    if screen.width < 1:
        # COLUMNS=0 stands for an unknown width; rich would show nothing at all.
        screen.width = _USUAL_WIDTH
    return screen


def print_line(screen: Console, text: str, style: str = "") -> None:
    """Foreign text on one line, however long."""
    screen.print(printable(text), style=style, markup=False, soft_wrap=True)


def recording_console() -> Console:
    """One that shows nothing and keeps what is printed, in colour, to be made into a `page`."""
    return Console(highlight=False, record=True, file=io.StringIO(), force_terminal=True, width=_PAGE_WIDTH)


def page(recorded: Console) -> str:
    """What a recording console has kept, as HTML that needs no other file; lines too long for a window are wrapped."""
    return recorded.export_html(theme=MONOKAI, inline_styles=True, code_format=_PAGE)


def progress(*, quiet: bool = False) -> Progress:
    """A progress display on standard error, gone when it is done; nothing at all if `quiet` or without a terminal."""
    stderr = Console(stderr=True, highlight=False)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        disable=quiet or not stderr.is_terminal,
    )


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
