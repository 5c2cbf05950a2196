"""The fork server: a process with one thread that has the renderer loaded, and copies itself for each worker.

It is started by `exec`, so that no thread and no lock of the program is in it. What it is told comes in through its
standard input, a socket: a command, five bytes long, with the worker's end of a connection beside it. It ends, and its
workers with it, when the program closes the other end, by ending too.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spanparse.isolation.messages import ANSWER, COMMAND, FORK, Allowance, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY: Final = 2.5
"""How many times `Limits.memory` a worker can allocate."""

SECONDS: Final = 1.5
"""How many times `Limits.seconds` of processor time a render can take."""

# What compiled templates and freed memory may take in a worker before it is replaced.
_MOST_LEFT: Final = 1 << 28


def serve() -> None:
    """Do what the program says until it ends."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    # Workers share memory with this process as long as neither writes to it.
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=0)
    workers: set[int] = set()
    with suppress(OSError):
        while (received := _command(control)) is not None:
            kind, process, handles = received
            if kind == FORK:
                process = _fork(control, handles[0])
                workers.add(process)
                answer = process
            elif process in workers:
                workers.remove(process)
                answer = os.waitpid(process, 0)[1]
            else:  # of a server before this one
                answer = 0
            control.sendall(ANSWER.pack(answer))
    for process in workers:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _command(control: socket.socket) -> tuple[bytes, int, list[int]] | None:
    data, handles, _, _ = socket.recv_fds(control, COMMAND.size, 1)
    return (*COMMAND.unpack(data), handles) if len(data) == COMMAND.size else None


def _fork(control: socket.socket, handle: int) -> int:
    try:
        process = os.fork()
    except OSError as error:
        os.close(handle)
        return -(error.errno or 1)
    if process:
        os.close(handle)
        return process
    status = 1
    try:
        control.close()
        _work(socket.socket(fileno=handle))
        status = 0
    finally:
        os._exit(status)


def _work(connection: socket.socket) -> None:
    """Answer requests until there are no more, or this process has grown."""
    before = _data_bytes()
    goes_on = True
    while goes_on and (request := receive(connection)) is not None:
        function, arguments, options = pickle.loads(request)
        options["limits"] = replace(options["limits"], isolate=False)
        error, result = _run(function, arguments, options, before)
        goes_on = _data_bytes() - before < _MOST_LEFT
        send(connection, pickle.dumps((goes_on, error, result), pickle.HIGHEST_PROTOCOL))


def _run(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], before: int
) -> tuple[Exception | None, Any]:
    limits: Allowance = options["limits"]
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_DATA, before + int(MEMORY * limits.memory) + _left_over(before))
    # In whole seconds, and so beside a timer, which ends the process as well.
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + 2 * limits.seconds) + 1)
    signal.setitimer(signal.ITIMER_PROF, SECONDS * limits.seconds)
    try:
        return None, function(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - it is raised where the render was asked for
        return error, None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        _limit(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


def _left_over(before: int) -> int:
    """Bytes that earlier renders have left in this process: they are not this one's."""
    return max(0, _data_bytes() - before)


def _limit(kind: int, soft: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _data_bytes() -> int:
    """Bytes of this process that `RLIMIT_DATA` counts."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * resource.getpagesize()
