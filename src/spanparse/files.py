"""Files that are read up to a limit, and files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from spanparse.errors import SourceError

_CHUNK_BYTES: Final = 1 << 20
_SILENCE_SECONDS: Final = 10.0
# Names of files that a process holds open already; a new file in their place would be read by nobody.
_OPEN_FILES: Final = ("/dev/fd/", "/dev/std", "/proc/")


def read_bounded(stream: BinaryIO, limit: int) -> bytes | None:
    """All bytes of `stream`, None if there are more than `limit`.

    Read in steps, so that a device without end costs no more than the limit and a large limit nothing. Raises OSError.
    """
    data = bytearray()
    while chunk := stream.read(_CHUNK_BYTES):
        data += chunk
        if len(data) > limit:
            return None
    return bytes(data)


def read_file(path: str | Path, limit: int) -> bytes | None:
    """All bytes of the file at `path`, None if there are more than `limit`.

    Raises OSError, also for a pipe or a terminal that says nothing for ten seconds: one that nobody writes to would be
    waited for without end.
    """
    # Without O_NONBLOCK a pipe is not even open before someone opens its other end.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb", buffering=0) as file:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return read_bounded(file, limit)
        data = bytearray()
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        while len(data) <= limit:
            if not waiting.poll(1000 * _SILENCE_SECONDS):
                raise TimeoutError(errno.ETIMEDOUT, f"nothing came out of it for {_SILENCE_SECONDS:g} s", str(path))
            chunk = file.read(_CHUNK_BYTES)
            if chunk == b"":
                return bytes(data)
            data += chunk or b""
    return None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Gives the path to write to: of a new file that takes the place of `path` when the block ends without an error.

    Until then, and after an error, what was at `path` is untouched, and nothing else is left behind. What is there and
    is no ordinary file (a device, a pipe) is written directly. Raises `SourceError` naming `path` for every OSError.
    """
    name = str(path)
    try:
        if _is_open_elsewhere(Path(path)):
            yield Path(path)
            return
        # Of a symbolic link the target is replaced, not the link.
        target = Path(os.path.realpath(path))
        draft = _new_draft(target)
        try:
            yield draft
            _synchronize(draft)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(name, f"cannot be written ({_reason(error)})") from error


def _is_open_elsewhere(path: Path) -> bool:
    """Whether another reader than the one of a new file waits for what is written: a device, a pipe, /dev/stdout."""
    return path.exists() and (not path.is_file() or os.path.abspath(path).startswith(_OPEN_FILES))


def _new_draft(target: Path) -> Path:
    """An empty file beside `target`, with the permissions that `target` has or would get."""
    draft = target.with_name(f".spanparse-{secrets.token_hex(8)}.tmp")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    if target.exists():
        draft.chmod(stat.S_IMODE(target.stat().st_mode))
    return draft


def _synchronize(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: OSError) -> str:
    # numpy counts what it could not write and leaves out why.
    return error.strerror or f"{error}; is the disk full?"
