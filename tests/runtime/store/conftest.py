"""Identities and records that need no model, and a Redis server of the test run's own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtime.store.records import IDENTITY, make_record

from runtime.store import Identity
from runtime.store.record import Record


@pytest.fixture
def identity() -> Identity:
    """An identity of no real model."""
    return IDENTITY


@pytest.fixture
def record() -> Callable[..., Record]:
    """Makes records, as `make_record` says."""
    return make_record


class RedisServer:
    """A redis-server that listens on a socket file only and keeps nothing on disk."""

    def __init__(self, directory: str) -> None:
        self.url = f"unix://{directory}/socket"
        self._command = ["redis-server", "--port", "0", "--unixsocket", f"{directory}/socket", "--save", ""]
        self._directory = directory
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*self._command, "--dir", self._directory], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        while not Path(self._directory, "socket").exists():
            assert self.process.poll() is None, "redis-server ended at once"
            time.sleep(0.01)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        Path(self._directory, "socket").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def running_redis() -> Iterator[RedisServer]:
    """One server for all tests, in a directory whose name is short enough for a socket."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    pytest.importorskip("redis", reason="the Redis tier needs the [redis] extra")
    with tempfile.TemporaryDirectory() as directory:
        server = RedisServer(directory)
        yield server
        server.stop()


@pytest.fixture
def redis_server(running_redis: RedisServer) -> RedisServer:
    """The server, running and empty."""
    import redis

    if running_redis.process.poll() is not None:
        running_redis.start()
    with redis.Redis.from_url(running_redis.url) as client:
        client.flushall()
        client.config_set("maxmemory", 0)
    return running_redis
