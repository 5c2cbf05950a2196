"""States in a Redis server, which several processes on several machines share.

A state is two strings: its head with the logits, and its state. A sorted set holds when each was used last, by a
logical clock, and a hash the size of each. All four change together in one transaction, which the server executes
only when it has received all of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar, final

from runtime.report import Source
from runtime.store.errors import StateRefused, TierError, TierFull
from runtime.store.identity import Identity
from runtime.store.name import Name
from runtime.store.record import HEAD_BYTES, Head, Record, logits_bytes, read_head, write_head
from runtime.store.tier import Take, TierStatus
from spanparse.errors import MissingExtra

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise MissingExtra("redis", "redis", "sharing states") from error

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The braces make a cluster keep all keys on one node, without which there are no transactions.
_PREFIX: Final = "{spanparse}:"
_USED, _SIZES, _CLOCK = _PREFIX + "used", _PREFIX + "sizes", _PREFIX + "clock"
_PIECE_BYTES = 1 << 22
_MOST_BYTES = 512 << 20  # Redis: proto-max-bulk-len, the default
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0

_FORGET = """
local function forget(name)
  redis.call('DEL', ARGV[1] .. 'head:' .. name, ARGV[1] .. 'state:' .. name)
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
"""
# Prefix, name, size, limit. What was left to give way for is summed up anew each time, so no error can add up.
_MAKE_ROOM = (
    _FORGET
    + """
forget(ARGV[2])
local total = tonumber(ARGV[3])
for _, size in ipairs(redis.call('HVALS', KEYS[2])) do total = total + tonumber(size) end
while total > tonumber(ARGV[4]) do
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not oldest then
    -- The server evicted the set itself, under a memory limit of its own; it does so with the states, too.
    redis.call('DEL', KEYS[2])
    break
  end
  total = total - tonumber(redis.call('HGET', KEYS[2], oldest) or 0)
  forget(oldest)
end
redis.call('ZADD', KEYS[1], redis.call('INCR', KEYS[3]), ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
"""
)
_REMOVE = _FORGET + "forget(ARGV[2])"
_TOUCH = "redis.call('ZADD', KEYS[1], 'XX', redis.call('INCR', KEYS[3]), ARGV[2])"


@final
class RedisTier:
    """States in the Redis server at `url` (`redis://host:port/db`, `rediss://`, `unix://`).

    `bytes_limit` bounds the sizes of all states that the server's database holds for all processes together, if they
    use the same one. No call waits for it longer than `timeout` seconds, a load no longer than twice that, connecting
    and transfers included: a server that does not answer by then, or not at all, is left alone for 5 seconds, then for
    twice as long each time, up to a minute, and calls raise `TierError` at once meanwhile.

    Making one does not connect. Raises `TierError` for an URL that is none.
    """

    source: Source = "redis"

    def __init__(self, url: str, *, bytes_limit: int, timeout: float = 2.0) -> None:
        self.bytes_limit = bytes_limit
        self.timeout = timeout
        self._url = url
        self._silence: str | None = None
        self._full: str | None = None
        self._pause = _FIRST_PAUSE
        self._silent_until = 0.0
        self._client = self._connect()

    def names(self) -> list[Name]:
        listed = self._call(lambda client: client.zrange(_USED, 0, -1))
        names = [Name.parse(name.decode("utf-8", "replace")) for name in listed]
        return [name for name in names if name is not None]

    def put(self, record: Record, identity: Identity) -> None:
        size, name = record.size, str(record.name)
        if size > min(self.bytes_limit, _MOST_BYTES):
            raise TierFull("redis", f"a state of {size} bytes is more than the budget or a string may have")

        def put(client: Any) -> None:
            # The same state without logits is smaller.
            if (
                int(client.hget(_SIZES, name) or 0) >= size
                and client.exists(_key("head", name), _key("state", name)) == 2
            ):
                _touch(client, name)
                return
            with client.pipeline(transaction=True) as pipeline:
                pipeline.eval(_MAKE_ROOM, 3, _USED, _SIZES, _CLOCK, _PREFIX, name, size, self.bytes_limit)
                pipeline.set(_key("head", name), write_head(record, identity) + logits_bytes(record))
                pipeline.set(_key("state", name), record.state.data)
                pipeline.execute()

        self._call(put)
        self._full = None

    def head(self, name: Name) -> Head:
        return read_head(self._piece("head", name, 0, HEAD_BYTES, time.monotonic() + self.timeout), name)

    def load(self, name: Name, take: Take) -> Record:
        deadline = time.monotonic() + self.timeout
        try:
            return self._load(name, take, deadline)
        except StateRefused as refusal:
            about = {"tier": self.source, "state": str(name), "reason": refusal.reason}
            _log.warning("%s; it is removed from Redis", refusal, extra=about)
            self._call(lambda client: client.eval(_REMOVE, 3, _USED, _SIZES, _CLOCK, _PREFIX, str(name)), deadline)
            raise

    def status(self) -> TierStatus:
        try:
            sizes = self._call(lambda client: client.hvals(_SIZES))
        except TierError as error:
            return TierStatus("redis", None, None, self.bytes_limit, error.reason)
        return TierStatus("redis", len(sizes), sum(map(int, sizes)), self.bytes_limit, self._full)

    def close(self) -> None:
        self._client.close()

    def _load(self, name: Name, take: Take, deadline: float) -> Record:
        head = read_head(self._piece("head", name, 0, HEAD_BYTES, deadline), name)
        # First of all: giving it a buffer may push another state into the server, and one out of it.
        self._call(lambda client: _touch(client, str(name)), deadline)
        state = take(head.state_bytes, head.logits_bytes)[: head.state_bytes]
        # Whatever gave way to the buffer took its time; that is not the server's fault.
        deadline = time.monotonic() + self.timeout
        logits = self._piece("head", name, HEAD_BYTES, head.logits_bytes, deadline)
        # In pieces, so that no second copy of a large state is in memory beside its buffer. They are put there by this
        # thread: one that waits for the server may outlive the call, and by then the buffer serves something else.
        for begin in range(0, state.size, _PIECE_BYTES):
            wanted = state[begin : begin + _PIECE_BYTES]
            piece = self._piece("state", name, begin, wanted.size, deadline)
            if len(piece) != wanted.size:
                raise StateRefused(str(name), f"its state ends at byte {begin + len(piece)} of {state.size}")
            wanted.data[:] = piece
        return Record(name, state, head.check(logits, state))

    def _piece(self, part: str, name: Name, begin: int, size: int, deadline: float) -> bytes:
        if not size:
            return b""
        key = _key(part, str(name))
        piece: bytes = self._call(lambda client: client.getrange(key, begin, begin + size - 1), deadline)
        if not piece:
            raise StateRefused(str(name), "it is gone from the server")
        return piece

    def _call(self, action: Callable[[Any], _T], deadline: float | None = None) -> _T:
        """What `action` makes of the connection, by `deadline`. Raises `TierError`."""
        if time.monotonic() < self._silent_until:
            raise TierError("redis", self._silence or "left alone")
        client, seconds = self._client, self.timeout if deadline is None else deadline - time.monotonic()
        try:
            result = _bounded(seconds, lambda: action(client))
        except redis.exceptions.OutOfMemoryError as error:
            self._full = f"the server has no memory left ({error})"
            raise TierFull("redis", self._full) from error
        except (redis.exceptions.TimeoutError, TimeoutError) as error:
            raise self._leave_alone(f"no answer within {self.timeout:g} s") from error
        except (redis.exceptions.RedisError, OSError) as error:
            raise self._leave_alone(str(error) or type(error).__name__) from error
        self._silence, self._pause = None, _FIRST_PAUSE
        return result

    def _leave_alone(self, reason: str) -> TierError:
        self._silence = reason
        self._silent_until = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        # Ends whatever still waits for the server; a later call gets a connection of its own.
        self._client.connection_pool.disconnect()
        self._client = self._connect()
        return TierError("redis", reason)

    def _connect(self) -> Any:
        try:
            return redis.Redis.from_url(
                self._url,
                socket_timeout=self.timeout,
                socket_connect_timeout=self.timeout,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        except ValueError as error:
            raise TierError("redis", f"not a Redis URL: {error}") from error


def _touch(client: Any, name: str) -> None:
    client.eval(_TOUCH, 3, _USED, _SIZES, _CLOCK, _PREFIX, name)


def _key(part: str, name: str) -> str:
    return f"{_PREFIX}{part}:{name}"


def _bounded(seconds: float, action: Callable[[], _T]) -> _T:
    """The outcome of `action`. Raises what it raises, and TimeoutError if that takes longer; it may then go on alone.

    The limits of a socket are not enough: they hold for each piece that arrives, and not for the resolution of a name.
    """
    outcome: list[_T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(action())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller's thread raises it
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError
    return outcome[0]
