"""The interactive side of `spanparse run`: a chat in the terminal, or line by line from a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, final

from rich.text import Text

from spanparse.cli.comparison import time_to_first_token
from spanparse.cli.output import error_line, printable_lines
from spanparse.cli.tables import cell
from spanparse.errors import SpanparseError

if TYPE_CHECKING:
    from rich.console import Console

    from runtime import Completion, Engine, Session, Stream

_PROMPT: Final = "> "
# What stands for a byte that could not be decoded.
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
_HELP: Final = """\
/regenerate    another answer to the same
/undo          take back what you said last, and the answer
/reset         forget all that was said; the system text stays
/system TEXT   what the model is told before the conversation; nothing to take it away
/stats         what the last answer cost
/quit          leave, as Ctrl-D does; Ctrl-C ends an answer"""


def typed_lines() -> Iterator[str]:
    """What is entered on standard input, with line editing on a terminal; ends with the input, or Ctrl-D.

    Bytes that are no text in the terminal's encoding are escaped, so that the other lines are answered.
    """
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if not sys.stdin.isatty():
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    with suppress(ImportError):
        import readline  # noqa: F401 input() uses it once it is there
    while True:
        try:
            yield input(_PROMPT)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
        except EOFError:
            sys.stdout.write("\n")
            return


def new_session(engine: Engine) -> Session:
    """A conversation with the defaults of llama.cpp's own chat. What a cancelled answer has said so far was said."""
    from runtime import Sampling, Session

    return Session(engine, sampling=Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05), keep_partial=True)


@final
class Chat:
    """A conversation that is entered line by line: what begins with a slash is a command.

    With `stats` every answer is followed by a line that tells what it cost. `failed` once a line could not be answered.
    """

    def __init__(self, session: Session, screen: Console, *, stats: bool) -> None:
        self.failed = False
        self._session = session
        self._screen = screen
        self._stats = stats
        self._last: Completion | None = None
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": self._help,
            "/regenerate": self._regenerate,
            "/reset": self._reset,
            "/stats": self._show_stats,
            "/system": self._system,
            "/undo": self._undo,
        }

    def enter(self, line: str) -> bool:
        """Answer what was entered; False if it means to leave."""
        from runtime import RunError

        if not line.strip():
            return True
        if found := _UNDECODED.search(line):
            byte = ord(found[0]) - 0xDC00
            self._complain(f"a line that is no text in {sys.stdin.encoding}: byte 0x{byte:02x} at {found.start()}")
            return True
        name, _, rest = line.strip().partition(" ")
        if name == "/quit":
            return False
        try:
            if name.startswith("/"):
                self._command(name)(rest.strip())
            else:
                self._answer(self._session.stream({"role": "user", "content": line}))
        except (RunError, SpanparseError) as error:
            self._complain(str(error))
        except KeyboardInterrupt:
            self._screen.print()
        return True

    def _command(self, name: str) -> Callable[[str], None]:
        return self._commands.get(name) or (lambda _: self._complain(f"{name}: no such command, see /help"))

    def _complain(self, text: str) -> None:
        self.failed = True
        error_line(text)

    def _answer(self, stream: Stream) -> None:
        try:
            self._show(stream)
        except KeyboardInterrupt:
            stream.cancel()
            self._show(stream)
        finally:
            self._screen.print()
        self._last = stream.completion
        if self._stats:
            self._show_stats("")

    def _show(self, stream: Stream) -> None:
        for text in stream:
            self._screen.print(Text(printable_lines(text)), end="", soft_wrap=True)
            self._screen.file.flush()

    def _help(self, _: str) -> None:
        self._screen.print(_HELP, markup=False, soft_wrap=True)

    def _regenerate(self, _: str) -> None:
        session = self._session
        session.sampling = replace(session.sampling, seed=(session.sampling.seed + 1) % (2**32 - 1))
        self._answer(session.stream_from(session.before_answer()))

    def _reset(self, _: str) -> None:
        self._session.messages = tuple(message for message in self._session.messages if message["role"] == "system")

    def _system(self, text: str) -> None:
        others = tuple(message for message in self._session.messages if message["role"] != "system")
        self._session.messages = ({"role": "system", "content": text}, *others) if text else others

    def _undo(self, _: str) -> None:
        self._session.undo()

    def _show_stats(self, _: str) -> None:
        told = "nothing has been answered yet" if self._last is None else stats_line(self._last)
        self._screen.print(cell(told), style="dim", soft_wrap=True)


def stats_line(completion: Completion) -> str:
    """What an answer cost, in one line."""
    report = completion.report
    seconds = report.to_json()["seconds"]
    generated, decode = len(completion.output_ids), report.seconds.decode
    refused = report.refused
    source = f" from {report.restored.source}" if report.restored else ""
    told = [
        f"prompt {report.prompt_tokens} tokens: {report.reused} reused{source}, {report.evaluated} evaluated",
        f"{time_to_first_token(seconds):.2f} s to the first token",
        f"{generated} generated in {decode:.2f} s" + (f" ({generated / decode:.0f}/s)" if decode else ""),
        f"{report.saves} saved, {report.bytes / 1e6:.1f} MB kept",
        completion.finish,
        *([] if refused is None else [f"{refused.offset} not restored from {refused.source}: {refused.reason}"]),
        *(f"{e.tokens} more than ideal: {e.reason}, {e.detail}" for e in report.excess),
    ]
    return " · ".join(told)
