"""States in the files of one directory, which several processes may use at once.

A state is written to a draft that reserves its whole size at once, is synchronised and then renamed, so its name never
stands for anything but all of it. Whoever writes holds a lock on the draft: a draft without one was left by a process
that died. The directory's own lock is held only while room is made, never while a state is written.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, final

from runtime.report import Source
from runtime.store.errors import StateRefused, TierError, TierFull
from runtime.store.identity import Identity
from runtime.store.name import Name
from runtime.store.record import HEAD_BYTES, Head, Record, logits_bytes, read_head, write_head
from runtime.store.tier import Take, TierStatus

_log = logging.getLogger(__name__)

_SUFFIX, _REFUSED, _DRAFT = ".state", ".refused", ".draft-"
_LOCK_SECONDS = 5.0  # Making room takes milliseconds; whoever holds the lock for longer has been stopped.
_MOST_AT_ONCE = 1 << 30  # Linux transfers at most 2 GiB in one call.


class _File(NamedTuple):
    path: str
    size: int
    rank: tuple[bool, int]
    """Order of giving way: refused files first, then by the time of the last use."""


@final
class DiskTier:
    """States in `directory`, which is made if it is not there, readable by its owner only.

    `bytes_limit` bounds the sizes of all files that the store has in it: states, drafts and those set aside as damaged
    (`.refused`), which are the first to give way. It holds for all processes together if they use the same one. Other
    files are left alone. The least recently used state gives way first.

    Raises `TierError` if the directory cannot be made or written.
    """

    source: Source = "disk"

    def __init__(self, directory: str | os.PathLike[str], *, bytes_limit: int) -> None:
        self.directory = Path(directory)
        self.bytes_limit = bytes_limit
        self._problem: str | None = None
        with self._named_errors():
            try:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
            with self._locked():
                self._make_room(0)

    def names(self) -> list[Name]:
        with self._named_errors():
            found = [Name.parse(name.removesuffix(_SUFFIX)) for name in os.listdir(self.directory)]
        return [name for name in found if name is not None]

    def put(self, record: Record, identity: Identity) -> None:
        path = self._path(record.name)
        with self._named_errors():
            # The same state without logits is smaller.
            if self._touch(path) >= record.size:
                return
            draft, handle = self._reserve(record.size)
            try:
                _write(handle, [memoryview(write_head(record, identity)), logits_bytes(record), record.state.data])
                os.fsync(handle)
                # Whoever is counting the files while one changes its name might see it under neither.
                with self._locked():
                    os.replace(draft, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft)
                raise
            finally:
                os.close(handle)
            self._synchronise()
        self._problem = None

    def head(self, name: Name) -> Head:
        with self._opened(name) as handle:
            return read_head(_read(handle, HEAD_BYTES), name)

    def load(self, name: Name, take: Take) -> Record:
        with self._opened(name) as handle:
            # First of all: giving it a buffer may push another state onto this disk, and one out of it.
            self._touch(self._path(name))
            try:
                head = read_head(_read(handle, HEAD_BYTES), name)
                size = os.fstat(handle).st_size
                if size != head.size:
                    raise StateRefused(str(name), f"{size} bytes long, its head says {head.size}")
                state = take(head.state_bytes, head.logits_bytes)[: head.state_bytes]
                logits = _read(handle, head.logits_bytes)
                _read_into(handle, state.data)
                return Record(name, state, head.check(logits, state))
            except StateRefused as refusal:
                self._set_aside(name, refusal)
                raise

    def status(self) -> TierStatus:
        try:
            files = list(self._files())
        except OSError as error:
            return TierStatus("disk", None, None, self.bytes_limit, _reason(error))
        entries = sum(file.path.endswith(_SUFFIX) for file in files)
        return TierStatus("disk", entries, sum(file.size for file in files), self.bytes_limit, self._problem)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _path(self, name: Name) -> str:
        return str(self.directory / f"{name}{_SUFFIX}")

    def _reserve(self, size: int) -> tuple[str, int]:
        """A draft of `size` bytes and its open, locked handle; states give way to it."""
        if size > self.bytes_limit:
            raise TierFull("disk", f"a state of {size} bytes is larger than the budget of {self.bytes_limit}")
        with self._locked():
            self._make_room(size)
            draft = str(self.directory / f"{_DRAFT}{secrets.token_hex(8)}")
            handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Says now that the disk is full, and lets other processes count the draft as what it will be.
                if sys.platform == "darwin":
                    os.ftruncate(handle, size)
                else:
                    os.posix_fallocate(handle, 0, size)
            except BaseException:
                os.unlink(draft)
                os.close(handle)
                raise
            return draft, handle

    def _make_room(self, size: int) -> None:
        """Remove what died writers left, and as many states as `size` more bytes need. The directory is locked."""
        total, idle = 0, []
        for file in self._files():
            if not _is_draft(file.path):
                idle.append(file)
            elif _is_abandoned(file.path):
                os.unlink(file.path)
                continue
            total += file.size
        for file in sorted(idle, key=lambda file: file.rank):
            if total + size <= self.bytes_limit:
                return
            os.unlink(file.path)
            total -= file.size
        if total + size > self.bytes_limit:
            raise TierFull("disk", f"other processes are writing {total} bytes, {size} more exceed the budget")

    def _files(self) -> Iterator[_File]:
        with os.scandir(self.directory) as entries:
            for entry in entries:
                stem = entry.name.removesuffix(_REFUSED).removesuffix(_SUFFIX)
                if _is_draft(entry.name) or (stem != entry.name and Name.parse(stem)):
                    # A file may be renamed or removed by another process at any moment.
                    with suppress(FileNotFoundError):
                        stat = entry.stat(follow_symlinks=False)
                        if not S_ISREG(stat.st_mode):
                            continue  # a directory, a pipe or a link under such a name is not the store's
                        rank = not entry.name.endswith(_REFUSED), stat.st_mtime_ns
                        yield _File(entry.path, stat.st_size, rank)

    def _set_aside(self, name: Name, refusal: StateRefused) -> None:
        path = self._path(name)
        about = {"tier": self.source, "state": str(name), "reason": refusal.reason}
        _log.warning("%s; the file is set aside", refusal, extra=about)
        with suppress(FileNotFoundError):
            os.replace(path, path + _REFUSED)

    def _touch(self, path: str) -> int:
        """Note that a state was used now; its size in bytes, -1 if it is not there."""
        try:
            os.utime(path)
            return os.stat(path).st_size
        except FileNotFoundError:
            return -1

    def _synchronise(self) -> None:
        """Make the directory's entries survive a loss of power."""
        handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextmanager
    def _opened(self, name: Name) -> Iterator[int]:
        with self._named_errors():
            try:
                # A pipe under that name must not be waited for.
                handle = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError as error:
                raise StateRefused(str(name), "it is gone from the disk") from error
            try:
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the directory's lock. Raises `TierError` if another process keeps it for too long."""
        try:
            handle = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.ENXIO):
                raise
            # A directory or a socket has that name; the store's own directory can be locked too, though not over NFS.
            handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while not _try_lock(handle):
                if time.monotonic() > deadline:
                    raise TierError("disk", f"another process has held {self.directory}/.lock for {_LOCK_SECONDS:g} s")
                time.sleep(0.005)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Errors of the system as `TierError`, remembered for the status."""
        try:
            yield
        except OSError as error:
            self._problem = _reason(error)
            raise TierError("disk", f"{self.directory}: {self._problem}") from error
        except TierError as error:
            if error.tier == self.source:
                self._problem = error.reason
            raise


def _is_draft(path: str) -> bool:
    return os.path.basename(path).startswith(_DRAFT)


def _is_abandoned(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return _try_lock(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(handle: int, parts: list[memoryview]) -> None:
    for part in parts:
        while part:
            part = part[os.write(handle, part[:_MOST_AT_ONCE]) :]


def _read(handle: int, size: int) -> bytes:
    """The next `size` bytes, fewer only at the end of the file."""
    data = os.read(handle, size)
    while len(data) < size and (more := os.read(handle, size - len(data))):
        data += more
    return data


def _read_into(handle: int, buffer: memoryview) -> None:
    """Fill `buffer` as far as the file goes; a checksum tells whether that was enough."""
    while buffer and (count := os.readv(handle, [buffer[:_MOST_AT_ONCE]])):
        buffer = buffer[count:]


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
