"""The Redis tier on a real server: shared, bounded, whole states or none, and never waited for without end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.runtime.store.records import IDENTITY, fresh, make_record, same

from runtime.store import StateRefused, TierError, TierFull

redis = pytest.importorskip("redis", reason="the Redis tier needs the [redis] extra")

from runtime.store.remote import RedisTier  # noqa: E402 - needs the extra

SIZE = make_record(1).size


@pytest.fixture
def tier(redis_server):
    with_room_for_three = RedisTier(redis_server.url, bytes_limit=3 * SIZE)
    yield with_room_for_three
    with_room_for_three.close()


@pytest.fixture
def impatient(redis_server, monkeypatch):
    """A tier that gives up early and tries again soon."""
    monkeypatch.setattr("runtime.store.remote._FIRST_PAUSE", 0.05)
    tier = RedisTier(redis_server.url, bytes_limit=3 * SIZE, timeout=0.3)
    yield tier
    tier.close()


@pytest.fixture
def client(redis_server):
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


def put(tier, *n_tokens):
    for n in n_tokens:
        tier.put(make_record(n), IDENTITY)


def numbers(tier):
    return sorted(name.n_tokens for name in tier.names())


def retry(action):
    """Until the server is no longer left alone."""
    while True:
        try:
            return action()
        except TierError:
            time.sleep(0.01)


@pytest.mark.parametrize("n_logits", [0, 100])
@pytest.mark.parametrize("size", [1, 5000, 9_000_000])
def test_what_one_process_puts_another_loads(redis_server, size, n_logits):
    ours, theirs = (RedisTier(redis_server.url, bytes_limit=20_000_000) for _ in range(2))
    record = make_record(7, size, n_logits)
    ours.put(record, IDENTITY)
    assert theirs.names() == [record.name]
    assert same(theirs.load(record.name, fresh), record)
    assert theirs.head(record.name).state_bytes == size
    ours.close()
    theirs.close()


def test_the_least_recently_used_gives_way(tier, client):
    put(tier, 1, 2, 3)
    tier.load(make_record(1).name, fresh)
    put(tier, 4)
    assert numbers(tier) == [1, 3, 4]
    assert tier.status().bytes == 3 * SIZE
    assert sum(client.strlen(key) for key in client.keys("*:head:*") + client.keys("*:state:*")) == 3 * SIZE


def test_a_record_that_is_there_counts_as_used(tier):
    put(tier, 1, 2, 3, 1, 4)
    assert numbers(tier) == [1, 3, 4]


def test_logits_that_come_later_are_added_and_not_lost_again(tier):
    for n_logits in (0, 100, 0):
        tier.put(make_record(1, n_logits=n_logits), IDENTITY)
    assert same(tier.load(make_record(1).name, fresh), make_record(1))
    assert tier.status().bytes == SIZE


def test_a_state_larger_than_the_budget_is_refused_and_nothing_gives_way(tier):
    put(tier, 1, 2, 3)
    with pytest.raises(TierFull, match="more than the budget"):
        tier.put(make_record(4, 4 * SIZE), IDENTITY)
    assert numbers(tier) == [1, 2, 3]


def test_a_damaged_state_is_refused_and_removed(tier, client):
    for part, reason in (("state", "checksum of its state"), ("head", "checksum of its (head|logits)")):
        put(tier, 1)
        (key,) = client.keys(f"*:{part}:*")
        data = bytearray(client.get(key))
        data[len(data) // 2] ^= 4
        client.set(key, bytes(data))
        with pytest.raises(StateRefused, match=reason):
            tier.load(make_record(1).name, fresh)
        assert tier.names() == []
        assert client.keys("*:head:*") + client.keys("*:state:*") == []


def test_a_state_cut_short_is_refused(tier, client):
    put(tier, 1)
    (key,) = client.keys("*:state:*")
    client.set(key, client.get(key)[:-1])
    with pytest.raises(StateRefused, match="ends at byte 4999 of 5000"):
        tier.load(make_record(1).name, fresh)


def test_what_the_server_evicted_by_itself_is_refused_and_forgotten(tier, client):
    put(tier, 1, 2)
    client.delete(*client.keys(f"*:state:{make_record(1).name}"))
    with pytest.raises(StateRefused, match="gone"):
        tier.load(make_record(1).name, fresh)
    assert numbers(tier) == [2]
    assert tier.status().bytes == SIZE


def test_books_that_the_server_evicted_do_not_stop_it(tier, client):
    put(tier, 1, 2, 3)
    client.delete("{spanparse}:used")
    put(tier, 4)
    assert numbers(tier) == [4]


def test_a_server_without_memory_refuses_the_state_and_keeps_the_others(redis_server, client):
    tier = RedisTier(redis_server.url, bytes_limit=1 << 30)
    put(tier, 1)
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    with pytest.raises(TierFull, match="no memory left"):
        put(tier, 2)
    assert "no memory left" in str(tier.status().problem)
    client.config_set("maxmemory", 0)
    assert same(tier.load(make_record(1).name, fresh), make_record(1))
    put(tier, 2)
    assert tier.status().problem is None
    assert numbers(tier) == [1, 2]
    tier.close()


def test_a_connection_that_breaks_while_a_state_is_sent_leaves_nothing(redis_server, client):
    """A proxy passes on half of a large state and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on_half():
        incoming, _ = listener.accept()
        with incoming, socket.socket(socket.AF_UNIX) as server:
            server.connect(redis_server.url.removeprefix("unix://"))
            left = 500_000
            server.settimeout(0.05)
            incoming.settimeout(0.05)
            while left > 0:
                for source, sink in ((incoming, server), (server, incoming)):
                    try:
                        data = source.recv(65536)
                    except TimeoutError:
                        continue
                    sink.sendall(data)
                    left -= len(data)

    thread = threading.Thread(target=pass_on_half)
    thread.start()
    tier = RedisTier(f"redis://127.0.0.1:{listener.getsockname()[1]}", bytes_limit=1 << 30, timeout=20)
    with pytest.raises(TierError):
        tier.put(make_record(1, 1_000_000), IDENTITY)
    thread.join()
    listener.close()
    tier.close()
    assert client.keys("*") == []


def test_a_stopped_server_is_given_up_left_alone_and_taken_back(redis_server, impatient):
    put(impatient, 1)
    redis_server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(TierError, match=r"no answer within 0\.3 s"):
            impatient.load(make_record(1).name, fresh)
        with pytest.raises(TierError):
            impatient.names()
        assert impatient.status().problem is not None
        assert impatient.status().bytes is None
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
    assert same(retry(lambda: impatient.load(make_record(1).name, fresh)), make_record(1))
    assert impatient.status().problem is None


def test_a_server_that_died_is_an_error_until_it_is_back(redis_server, impatient):
    put(impatient, 1)
    redis_server.stop()
    with pytest.raises(TierError):
        put(impatient, 2)
    redis_server.start()
    retry(lambda: put(impatient, 2))
    assert numbers(impatient) == [2]


def test_a_server_that_is_left_alone_is_not_asked(redis_server):
    tier = RedisTier("unix:///nowhere", bytes_limit=1)
    with pytest.raises(TierError) as first:
        tier.names()
    tier._client = None  # whoever asks now fails otherwise
    with pytest.raises(TierError) as second:
        tier.names()
    assert first.value.reason == second.value.reason


def test_a_server_that_sends_a_byte_now_and_then_is_given_up_and_hung_up_on():
    """Each byte arrives in time, so the limits of the socket never strike."""
    hung_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle():
            connection, _ = listener.accept()
            with connection:
                for _ in range(500):
                    try:
                        connection.sendall(b"+")
                    except OSError:
                        hung_up.set()
                        return
                    time.sleep(0.02)

        thread = threading.Thread(target=trickle)
        thread.start()
        tier = RedisTier(f"redis://127.0.0.1:{listener.getsockname()[1]}", bytes_limit=1, timeout=0.2)
        with pytest.raises(TierError, match="no answer within"):
            tier.names()
        thread.join()
        tier.close()
    assert hung_up.is_set()


def test_a_buffer_is_not_touched_after_a_load_was_given_up(redis_server, impatient):
    """The store uses it again at once."""
    put(impatient, 1)
    buffer = np.zeros(5000, dtype=np.uint8)

    def stop_and_take(size, rest):
        redis_server.process.send_signal(signal.SIGSTOP)
        return buffer

    try:
        with pytest.raises(TierError):
            impatient.load(make_record(1).name, stop_and_take)
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
    retry(impatient.names)
    assert not buffer.any()


def test_a_url_that_is_none_is_refused_without_its_password():
    with pytest.raises(TierError, match="not a Redis URL") as failure:
        RedisTier("http://user:secret@host", bytes_limit=1)
    assert "secret" not in str(failure.value)


def test_without_the_extra_the_error_names_it():
    code = "import sys; sys.modules['redis'] = None; import runtime.store; import runtime.store.remote"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs the [redis] extra" in result.stderr
