"""What the program, its fork server and its workers tell each other."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import socket

COMMAND: Final = struct.Struct("<ci")
"""What to do, `FORK` or `REAP`, and with which process. The answer is a process or how one ended."""

ANSWER: Final = struct.Struct("<i")
LENGTH: Final = struct.Struct("<Q")
"""In front of every request and answer of a worker."""

FORK: Final = b"F"
REAP: Final = b"R"


class Allowance(Protocol):
    """What a render may take, as `spanparse.Limits` says: seconds, until when, and bytes of memory."""

    @property
    def seconds(self) -> float: ...
    @property
    def until(self) -> float | None: ...
    @property
    def memory(self) -> int: ...


def receive(connection: socket.socket) -> bytearray | None:
    """The next message; None if the other end is closed."""
    length = _exactly(connection, LENGTH.size)
    return None if length is None else _exactly(connection, LENGTH.unpack(length)[0])


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    left = memoryview(data)
    while left:
        count = connection.recv_into(left)
        if not count:
            return None
        left = left[count:]
    return data


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message. Raises OSError if the other end is closed."""
    connection.sendall(LENGTH.pack(len(message)))
    connection.sendall(message)
