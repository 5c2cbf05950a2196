"""The store finds the longest usable state in any tier, keeps every budget, and outlives its tiers' failures."""

from __future__ import annotations

import logging
import os
import resource
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.runtime.store.records import IDENTITY

from runtime.store import DiskTier, Medium, StateRefused, Store, TierError, TierFull

TOKENS = np.arange(1000, dtype=np.int32) % 7
RAM, DISK = 30_000, 60_000


def content(n_tokens, size=10_000, variant=0):
    return np.random.default_rng((n_tokens, variant)).integers(0, 256, size, dtype=np.uint8)


def save(store, n_tokens, size=10_000, tokens=TOKENS, **options):
    def write(buffer):
        buffer[:] = content(n_tokens, size)
        return size

    return store.save(tokens[:n_tokens], size, write, **options)


@pytest.fixture
def disk(tmp_path):
    return DiskTier(tmp_path / "states", bytes_limit=DISK)


@pytest.fixture
def store(disk):
    with Store(IDENTITY, ram_bytes=RAM, tiers=[disk]) as store:
        yield store
        store.check_integrity()


def found(store, *arguments, **options):
    return [(match.n_tokens, match.source) for match in store.find(*arguments, **options).matches]


def test_the_longest_saved_prefix_is_found_with_its_logits(store):
    logits = np.random.default_rng(0).random(100, dtype=np.float32)
    save(store, 100)
    save(store, 200, logits=logits, size=9000)
    entry = store.longest(TOKENS)
    assert (entry.n_tokens, entry.source) == (200, "ram")
    assert np.array_equal(entry.state, content(200, 9000))
    assert np.array_equal(entry.logits, logits)


def test_logits_are_a_copy(store):
    logits = np.zeros(10, dtype=np.float32)
    save(store, 100, logits=logits)
    logits[:] = 1
    assert not store.longest(TOKENS).logits.any()


def test_no_longer_one_than_asked_for_is_found(store):
    for n in (100, 200):
        save(store, n)
    assert store.longest(TOKENS, at_most=199).n_tokens == 100
    assert store.longest(TOKENS[:99]) is None


def test_another_prefix_is_not_found(store):
    save(store, 100)
    other = TOKENS.copy()
    other[99] += 1
    assert store.longest(other) is None


def test_the_same_tokens_with_other_media_are_not_found(store):
    save(store, 100, media=[Medium(50, 60, "cat")])
    assert store.longest(TOKENS, [Medium(50, 60, "dog")]) is None
    assert store.longest(TOKENS, [Medium(50, 60, "cat"), Medium(200, 210, "dog")]).n_tokens == 100


def test_nothing_can_be_saved_inside_media_or_after_no_tokens(store):
    with pytest.raises(ValueError, match="no state can be stored"):
        save(store, 55, media=[Medium(50, 60, "cat")])
    with pytest.raises(ValueError, match="no state can be stored"):
        save(store, 0)


def test_what_gives_way_in_ram_is_found_on_disk(store):
    for n in (100, 200, 300, 400):
        save(store, n)
    assert found(store, TOKENS) == [(400, "ram"), (300, "ram"), (200, "ram"), (100, "disk")]
    entry = store.longest(TOKENS, at_most=150)
    assert entry.source == "disk"
    assert np.array_equal(entry.state, content(100))
    assert store.longest(TOKENS, at_most=150).source == "ram"


def test_a_flush_writes_everything_once(store, disk):
    for n in (100, 200):
        save(store, n)
    store.flush()
    assert found(store, TOKENS) == [(200, "ram"), (200, "disk"), (100, "ram"), (100, "disk")]
    before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(disk.directory)}
    store.flush()
    assert before == {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(disk.directory)}


def test_closing_keeps_states_for_the_next_process_and_frees_memory(disk):
    store = Store(IDENTITY, ram_bytes=RAM, tiers=[disk])
    save(store, 100)
    store.close()
    assert store.status().tiers[0].bytes == 0
    store.close()
    with Store(IDENTITY, ram_bytes=RAM, tiers=[disk]) as again:
        assert again.longest(TOKENS).source == "disk"


def test_the_same_state_is_saved_once_and_logits_that_come_later_are_added(store):
    assert save(store, 100)
    assert not save(store, 100)
    assert save(store, 100, logits=np.ones(5, dtype=np.float32))
    assert not save(store, 100)
    assert store.longest(TOKENS).logits.size == 5


def test_a_state_of_another_identity_is_refused_with_the_reason(store, disk):
    save(store, 100)
    save(store, 200)
    store.flush()
    with Store(replace(IDENTITY, keys_and_values="f32"), ram_bytes=RAM, tiers=[disk]) as other:
        save(other, 100)
        result = other.find(TOKENS)
        assert [match.n_tokens for match in result.matches] == [100]
        assert result.refusal is not None
        assert (result.refusal.n_tokens, result.refusal.source) == (200, "disk")
        assert result.refusal.reason == "saved with keys and values f16, here f32"
        save(other, 200)
        assert other.find(TOKENS).refusal is None


def test_a_damaged_state_is_passed_over(store, disk):
    for n in (100, 200):
        save(store, n)
    store.flush()
    (damaged,) = disk.directory.glob("*-200-*")
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    with Store(IDENTITY, ram_bytes=RAM, tiers=[disk]) as again:
        entry = again.longest(TOKENS)
        assert entry.n_tokens == 100
        assert np.array_equal(entry.state, content(100))
        again.check_integrity()
    assert damaged.with_name(damaged.name + ".refused").exists()


def test_a_match_that_gave_way_in_the_meantime_is_refused():
    store = Store(IDENTITY, ram_bytes=RAM)
    save(store, 100)
    (match,) = store.find(TOKENS).matches
    for n in (200, 300, 400):
        save(store, n)
    with pytest.raises(StateRefused, match="given way"):
        store.load(match)
    store.check_integrity()


def test_a_state_larger_than_the_ram_budget_is_refused_and_never_written(store):
    with pytest.raises(TierFull, match="no room"):
        store.save(TOKENS[:5], RAM + 1, lambda buffer: pytest.fail("written"))


def test_room_is_made_before_a_state_is_written(store):
    for n in (100, 200, 300):
        save(store, n)

    def write(buffer):
        assert store.status().tiers[0].bytes <= RAM
        return 0

    store.save(TOKENS[:400], 20_000, write)


def test_a_failed_write_leaves_no_state_and_no_loan(store):
    def fail(buffer):
        raise RuntimeError("llama.cpp")

    with pytest.raises(RuntimeError):
        store.save(TOKENS[:100], 10_000, fail)
    store.check_integrity()
    assert store.longest(TOKENS) is None


def test_a_tier_that_fails_is_logged_once_told_and_asked_again(store, disk, caplog):
    caplog.set_level(logging.INFO, "runtime.store")
    away = disk.directory.with_name("away")
    disk.directory.rename(away)
    for n in (100, 200):
        save(store, n)
        store.flush()
        assert store.longest(TOKENS).n_tokens == n
    assert store.status().degraded == ("disk",)
    reason = f"{disk.directory}: No such file or directory"
    assert sorted((r.message, r.tier, r.work, r.reason) for r in caplog.records) == [
        (f"disk fails at reading states: {reason}", "disk", "reading", reason),
        (f"disk fails at writing states: {reason}", "disk", "writing", reason),
    ]
    away.rename(disk.directory)
    store.flush()
    assert found(store, TOKENS) == [(200, "ram"), (200, "disk"), (100, "ram"), (100, "disk")]
    assert store.status().degraded == ()
    assert [r.message for r in caplog.records[2:]] == [
        "disk is writing states again",
        "disk is reading states again",
    ]


def test_a_disk_that_is_full_and_can_be_read_is_logged_once(store, caplog):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        for n in (100, 200):
            save(store, n)
            store.flush()
            assert store.longest(TOKENS).n_tokens == n
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(record.levelname, record.work) for record in caplog.records] == [("WARNING", "writing")]
    store.flush()
    assert found(store, TOKENS) == [(200, "ram"), (200, "disk"), (100, "ram"), (100, "disk")]


def test_a_state_that_no_tier_takes_is_lost_with_a_word(store, disk, caplog):
    caplog.set_level(logging.INFO, "runtime.store")
    away = disk.directory.with_name("away")
    disk.directory.rename(away)
    for n in (100, 200, 300, 400):
        save(store, n)
    away.rename(disk.directory)
    assert "a state gave way and no tier took it" in [record.message for record in caplog.records]
    assert found(store, TOKENS, at_most=100) == []


def test_a_status_is_plain_data(store):
    assert store.status().to_json() == {
        "tiers": [
            {"tier": "ram", "entries": 0, "bytes": 0, "bytes_limit": RAM, "problem": None},
            {"tier": "disk", "entries": 0, "bytes": 0, "bytes_limit": DISK, "problem": None},
        ],
        "degraded": [],
    }


def test_states_are_shared_through_redis_and_a_dead_one_costs_only_them(redis_server, disk):
    remote = pytest.importorskip("runtime.store.remote", reason="the Redis tier needs the [redis] extra")

    def tier():
        return remote.RedisTier(redis_server.url, bytes_limit=DISK, timeout=1)

    with (
        Store(IDENTITY, ram_bytes=RAM, tiers=[disk, tier()]) as ours,
        Store(IDENTITY, ram_bytes=RAM, tiers=[tier()]) as theirs,
    ):
        save(ours, 100)
        ours.flush()
        assert found(ours, TOKENS) == [(100, "ram"), (100, "disk"), (100, "redis")]
        entry = theirs.longest(TOKENS)
        assert entry.source == "redis"
        assert np.array_equal(entry.state, content(100))
        redis_server.stop()
        save(ours, 200)
        ours.flush()
        assert found(ours, TOKENS)[:2] == [(200, "ram"), (200, "disk")]
        assert ours.status().degraded == ("redis",)


def test_memory_on_loan_counts_and_states_give_way_to_it(store):
    save(store, 100)
    save(store, 200)
    slot = store.borrow(15_000)
    store.check_integrity()
    assert found(store, TOKENS) == [(200, "ram"), (100, "disk")]
    with pytest.raises(TierFull):
        store.borrow(15_001)
    store.give_back(slot)
    store.check_integrity()
    save(store, 300, size=29_000)


def test_a_state_is_known_to_be_stored_wherever_it_is(store):
    assert not store.has(TOKENS[:100])
    save(store, 100)
    assert store.has(TOKENS[:100])
    store.flush()
    assert not store.has(TOKENS[:100], logits=True)
    assert not store.has(TOKENS[:99])
    for n in (200, 300, 400):
        save(store, n)
    assert found(store, TOKENS[:100]) == [(100, "disk")]
    assert store.has(TOKENS[:100])


def test_what_a_load_reads_is_known_before(store):
    save(store, 100, logits=np.zeros(100, dtype=np.float32))
    store.flush()
    assert [store.size(match) for match in store.find(TOKENS).matches] == [4096 + 10_000 + 400] * 2


def test_a_flush_can_be_left_after_any_state(store, disk):
    for n in (100, 200, 300):
        save(store, n, size=5000)
    for _ in store.flushing():
        break
    assert len(disk.names()) == 1
    store.flush()
    assert len(disk.names()) == 3
    assert list(store.flushing()) == []


class Chats(RuleBasedStateMachine):
    """Saves, loads, flushes, restarts and damage in any order, against a dictionary that forgets nothing."""

    @initialize()
    def start(self):
        self.directory = tempfile.TemporaryDirectory()
        self.variants = {}
        self.store = self.opened()

    def opened(self):
        return Store(IDENTITY, ram_bytes=RAM, tiers=[DiskTier(self.directory.name, bytes_limit=DISK)])

    def tokens(self, chat):
        return np.full(50, chat, dtype=np.int32)

    @rule(chat=st.integers(0, 2), n=st.integers(1, 50), size=st.integers(1, 29_000), logits=st.booleans())
    def save(self, chat, n, size, logits):
        def write(buffer):
            buffer[:] = content(n, size, chat)
            return size

        row = np.full(100, n, dtype=np.float32) if logits else None
        # The state of a prefix is always the same; only whether its logits are known may change.
        size = self.variants.setdefault((chat, n), size)
        self.store.save(self.tokens(chat)[:n], size, write, logits=row)

    @rule(chat=st.integers(0, 2), at_most=st.integers(1, 50))
    def load(self, chat, at_most):
        entry = self.store.longest(self.tokens(chat), at_most=at_most)
        if entry is not None:
            assert entry.n_tokens <= at_most
            size = self.variants[chat, entry.n_tokens]
            assert np.array_equal(entry.state, content(entry.n_tokens, size, chat))
            assert entry.logits is None or (entry.logits == entry.n_tokens).all()

    @rule()
    def flush(self):
        self.store.flush()

    @rule(orderly=st.booleans())
    def restart(self, orderly):
        if orderly:
            self.store.close()
        self.store = self.opened()

    @rule(at=st.integers(0, 40_000), which=st.integers(0, 5))
    def damage(self, at, which):
        paths = sorted(entry.path for entry in os.scandir(self.directory.name) if entry.name.endswith(".state"))
        if paths:
            with open(paths[which % len(paths)], "r+b") as file:
                at %= os.fstat(file.fileno()).st_size
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 64]))

    @invariant()
    def budgets_and_books_are_right(self):
        self.store.check_integrity()

    def teardown(self):
        self.directory.cleanup()


Chats.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestChats = Chats.TestCase


def test_a_tier_error_of_a_load_leaves_the_store_usable(store, disk):
    save(store, 100)
    store.flush()
    with Store(IDENTITY, ram_bytes=RAM, tiers=[disk]) as again:
        (match,) = again.find(TOKENS).matches
        away = disk.directory.with_name("away")
        disk.directory.rename(away)
        with pytest.raises((TierError, StateRefused)):
            again.load(match)
        away.rename(disk.directory)
        assert again.load(match).n_tokens == 100
