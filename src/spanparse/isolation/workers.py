"""The program's side of isolated renders: one fork server, started when first needed, and the workers it gave.

A worker serves one render at a time and is used again as long as it behaves: it keeps the templates that it compiled.
One that runs past its limits is killed, and so is one whose render is interrupted.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spanparse.errors import SpanparseError, TemplateLimit
from spanparse.isolation.messages import ANSWER, COMMAND, FORK, LENGTH, REAP, Allowance, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_IDLE: Final = 4
_START_SECONDS: Final = 60.0
# What renders is loaded once, for all workers.
_SERVER: Final = (
    "import sys; sys.path[:] = {path!r}; import spanparse.rendering.render; "
    "from spanparse.isolation.server import serve; serve()"
)
# What else a render may take by the clock, on a machine that has other things to do, before its worker is killed.
_LATEST: Final = 1.9


class _Worker(NamedTuple):
    process: int
    connection: socket.socket


def is_available() -> bool:
    """Whether this platform has the limits that workers need: Linux has."""
    return sys.platform == "linux"


def prepare() -> None:
    """Start the fork server now, which takes a fraction of a second beside whatever the program does meanwhile."""
    with _lock:
        _started()


def ready() -> None:
    """See that a worker is there, so that no render's time goes into its start."""
    _give_back(_take()[0])


def isolated(function: Callable[..., Any], *arguments: Any, name: str, limits: Allowance, **options: Any) -> Any:
    """`function(*arguments, name=name, limits=limits, **options)` in a worker.

    All of it, and what it gives or raises, must survive `pickle`. Raises `TemplateLimit`, naming the template `name`,
    if the worker ran past `limits` or died, and `SpanparseError` where no worker can be had.
    """
    try:
        options.update(name=name, limits=limits)
        request = pickle.dumps((function, arguments, options), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SpanparseError(f"Limits(isolate=True) needs messages, tools and kwargs of plain data: {error}") from error
    while True:
        worker, is_new = _take()
        try:
            answer = _ask(worker, request, limits)
        except BaseException as error:
            how = _end(worker)
            if not isinstance(error, OSError):
                raise
            if isinstance(error, BrokenPipeError) and not is_new:
                continue  # it had died before it was asked
            raise TemplateLimit(name, _told(how, error, limits)) from None
        goes_on, raised, result = answer
        if goes_on:
            _give_back(worker)
        else:
            _end(worker)
        if raised is not None:
            raise raised
        return result


def _ask(worker: _Worker, request: bytes, limits: Allowance) -> Any:
    """What the worker answers. Raises OSError if it dies, TimeoutError if it does not answer in time."""
    left = limits.seconds if limits.until is None else max(0.0, limits.until - time.monotonic())
    worker.connection.settimeout(left + (_LATEST - 1) * limits.seconds)
    send(worker.connection, request)
    length = worker.connection.recv(LENGTH.size, socket.MSG_PEEK)
    if not length:
        raise ConnectionResetError
    worker.connection.settimeout(None)
    answer = receive(worker.connection)
    if answer is None:
        raise ConnectionResetError
    return pickle.loads(answer)


def _told(status: int, error: OSError, limits: Allowance) -> str:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if isinstance(error, TimeoutError) or number in (signal.SIGPROF, signal.SIGXCPU):
        return f"its process was ended: it did not stop after {limits.seconds:g} s (Limits.seconds)"
    how = signal.Signals(number).name if number else f"exit code {os.waitstatus_to_exitcode(status)}"
    return f"its process died ({how}): it may hold more than {limits.memory:,} bytes of memory (Limits.memory)"


# --- workers and their server ---------------------------------------------------------------------

_lock = Lock()
_idle: list[_Worker] = []
_control: socket.socket | None = None


def _started() -> socket.socket:
    """The connection to the fork server. To be called with the lock held."""
    global _control
    if _control is not None:
        return _control
    if not is_available():
        raise SpanparseError(f"Limits(isolate=True) needs Linux: {sys.platform} has no limits on what a process takes")
    ours, theirs = socket.socketpair()
    with theirs:
        # Its own session: a Ctrl-C in the terminal is the program's.
        command = [sys.executable, "-c", _SERVER.format(path=sys.path)]
        null = subprocess.DEVNULL
        try:
            server = subprocess.Popen(command, stdin=theirs.fileno(), stdout=null, stderr=null, start_new_session=True)
        except (OSError, TypeError) as error:
            ours.close()
            raise SpanparseError(f"Limits(isolate=True): {sys.executable} cannot be started ({error})") from error
    server.returncode = 0  # it ends when this program does, and nobody waits for it
    ours.settimeout(_START_SECONDS)
    _control = ours
    return ours


def _take() -> tuple[_Worker, bool]:
    """A worker, and whether it is new."""
    with _lock:
        if _idle:
            return _idle.pop(), False
        is_new = _control is None
        try:
            return _forked(), True
        except ConnectionError as error:
            if is_new:
                raise SpanparseError(f"Limits(isolate=True): the fork server does not answer ({error})") from error
        return _forked(), True  # the server had ended


def _forked() -> _Worker:
    """A new worker. To be called with the lock held. Raises ConnectionError if the server has ended."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = _commanded(FORK, 0, [theirs.fileno()])
        if process < 0:
            raise SpanparseError(f"Limits(isolate=True): no worker can be started ({os.strerror(-process)})")
    except BaseException:
        ours.close()
        raise
    return _Worker(process, ours)


def _commanded(kind: bytes, process: int, handles: list[int]) -> int:
    """What the fork server answers to a command. With the lock held. Raises ConnectionError if it ended."""
    global _control
    control = _started()
    try:
        socket.send_fds(control, [COMMAND.pack(kind, process)], handles)
        answer = control.recv(ANSWER.size, socket.MSG_WAITALL)
        if len(answer) != ANSWER.size:
            raise ConnectionResetError("it has ended")
    except BaseException as error:
        # What comes in from here on would be the answer to another command.
        control.close()
        _control = None
        if isinstance(error, TimeoutError):
            raise ConnectionError(f"not for {_START_SECONDS:g} s") from error
        raise
    number: int = ANSWER.unpack(answer)[0]
    return number


def _give_back(worker: _Worker) -> None:
    with _lock:
        if len(_idle) < _MOST_IDLE:
            _idle.append(worker)
            return
    _end(worker)


def _end(worker: _Worker) -> int:
    """Kill a worker; how it ended, as `os.waitpid` says."""
    worker.connection.close()
    # Until it is reaped, its number is no other process's.
    with suppress(OSError):
        os.kill(worker.process, signal.SIGKILL)
    with _lock, suppress(ConnectionError):
        return _commanded(REAP, worker.process, []) if _control is not None else 0
    return 0


def _forget() -> None:
    """Leave workers and server to end, or to the process that this one is a copy of."""
    global _control, _lock
    _lock = Lock()
    for worker in _idle:
        worker.connection.close()
    _idle.clear()
    if _control is not None:
        _control.close()
        _control = None


atexit.register(_forget)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
