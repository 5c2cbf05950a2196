"""Conversations that outlive their engine, its process and the room in its memory, as a user of the engine sees it."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime import Request
from runtime.metrics import Metrics
from runtime.scheduler import Call
from runtime.store import Identity, Name, StoreOptions
from runtime.store.record import HEAD_BYTES, read_head, write_head
from runtime.tree.archive import Archive

ROOT = Path(__file__).resolve().parents[3]
WORDS = "The ferry leaves at half past six, and on Friday there is a second one. " * 12
CHAT = [{"role": "system", "content": WORDS}, {"role": "user", "content": "When does the last boat leave?"}]


def ask(*more, max_tokens=5):
    return Request([*CHAT, *more], max_tokens=max_tokens)


def grown(answer):
    return ask({"role": "assistant", "content": answer}, {"role": "user", "content": "And on Sunday?"})


def until(is_so):
    """Wait for what the scheduler does when it has nothing else to do."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.01)


def samples(metrics):
    """Every sample by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def disk(directory, **limits):
    return StoreOptions(50_000_000, directory, **{"disk_bytes": 100_000_000, **limits})


def test_an_identical_prompt_after_a_restart_evaluates_nothing_and_has_the_same_answer(engine, kind, tmp_path):
    with engine(kind, store=disk(tmp_path)) as before:
        first = before.generate(ask())
    with engine(kind, store=disk(tmp_path)) as after:
        again = after.generate(ask())
        after.check_integrity()
    assert first.report.evaluated == first.report.prompt_tokens
    assert (again.report.evaluated, again.report.restored.source) == (0, "disk")
    assert (again.output, again.finish) == (first.output, first.finish)


def test_a_conversation_goes_on_after_a_restart_as_it_would_have(engine, kind, tmp_path):
    with engine(kind, store=disk(tmp_path)) as before:
        first = before.generate(ask())
    with engine(kind, store=disk(tmp_path)) as after:
        second = after.generate(grown(first.output))
    with engine(kind) as cold:
        expected = cold.generate(grown(first.output))
    # The template opens an answer with a thought, which the next prompt does not have.
    assert first.report.prompt_tokens - 8 <= second.report.reused <= first.report.prompt_tokens
    assert second.report.restored.source == "disk"
    assert second.output == expected.output


@pytest.mark.parametrize("size", [1, 7, 10, 4 * 50])
def test_stored_logits_of_another_size_are_passed_over(engine, tmp_path, size):
    with engine("hybrid", store=disk(tmp_path)) as before:
        first = before.generate(ask())
    for path in tmp_path.glob("*.state"):
        data = path.read_bytes()
        head = read_head(data[:HEAD_BYTES], Name.parse(path.stem))
        state = memoryview(data)[HEAD_BYTES + head.logits_bytes :]
        wrong = SimpleNamespace(
            name=Name.parse(path.stem),
            logits=np.zeros(size, np.uint8),
            state=SimpleNamespace(data=state, nbytes=len(state)),
        )
        path.write_bytes(write_head(wrong, Identity(**head.identity)) + bytes(size) + state)
    with engine("hybrid", store=disk(tmp_path)) as after:
        again = after.generate(ask())
    assert again.output == first.output
    assert again.report.evaluated == first.report.evaluated


CHILD = """
import sys, time
from runtime import Engine
from runtime.tiny import ensure_model
from tests.runtime.store.test_engine import *
options = {"n_ctx": 1024, "n_batch": 256, "n_ubatch": 128, "n_threads": 1, "exact": True}
engine = Engine(ensure_model(sys.argv[1]), store=disk(sys.argv[2]), **options)
print(engine.generate(ask()).output.encode().hex(), flush=True)
for number in range(1000):
    engine.generate(Request([{"role": "user", "content": f"{number} {WORDS}"}], max_tokens=2))
    print(number, flush=True)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_what_was_written(engine, kind, tmp_path):
    """However many requests came after: the first is on disk, whole, and so is each other or it is not there."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, kind, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        output = bytes.fromhex(child.stdout.readline()).decode()
        for _ in range(3):
            child.stdout.readline()
        # In the middle of whatever it is doing: an answer, a state being made, a write.
        time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    with engine(kind, store=disk(tmp_path)) as after:
        again = after.generate(ask())
        after.tree.archive.store.check_integrity()
    assert (again.report.evaluated, again.report.restored.source) == (0, "disk")
    assert again.output == output


def test_no_client_waits_for_the_store(engine, monkeypatch):
    """The first token is out before anything of the prompt's end is kept, and the answer before it is stored."""
    events = []

    def noted(owner, name):
        genuine = getattr(owner, name)

        def method(*arguments, **options):
            events.append(name)
            return genuine(*arguments, **options)

        monkeypatch.setattr(owner, name, method)

    made = engine("hybrid", store=StoreOptions(50_000_000))
    for owner, name in ((Call, "put"), (Call, "end"), (Archive, "hold"), (Archive, "put_away")):
        noted(owner, name)
    made.generate(ask(max_tokens=3))
    made.check_integrity()
    assert events == ["put", "hold", "put", "put", "end", "put_away", "put_away"]


def test_two_engines_share_a_server(engine, redis_server):
    shared = StoreOptions(50_000_000, redis=redis_server.url)
    here, there = engine("hybrid", store=shared), engine("hybrid", store=shared)
    first = here.generate(ask())
    until(lambda: here.store_status().tiers[1].entries == 2)
    second = there.generate(ask())
    assert (second.report.evaluated, second.report.restored.source) == (0, "redis")
    assert second.output == first.output
    third = here.generate(grown(first.output))
    until(lambda: here.store_status().tiers[1].entries == 4)
    assert there.generate(grown(first.output)).output == third.output


def test_a_server_that_has_gone_costs_its_states_alone(engine, redis_server, caplog):
    made = engine("hybrid", store=StoreOptions(50_000_000, redis=redis_server.url))
    made.generate(ask())
    redis_server.stop()
    with caplog.at_level(logging.WARNING, "runtime.store"):
        for text in ("One", "Two", "Three"):
            assert made.generate(Request([{"role": "user", "content": text}])).finish == "length"
        made.check_integrity()
        assert made.store_status().degraded == ("redis",)
    warnings = [record for record in caplog.records if record.name.startswith("runtime.store")]
    assert {(record.tier, record.levelname) for record in warnings} == {("redis", "WARNING")}
    assert len({record.work for record in warnings}) == len(warnings) <= 2


def test_a_server_that_hangs_is_waited_for_once(engine, redis_server, caplog):
    made = engine("hybrid", store=StoreOptions(50_000_000, redis=redis_server.url))
    redis_server.process.send_signal(signal.SIGSTOP)
    try:
        for text in ("One", "Two", "Three"):
            assert made.generate(Request([{"role": "user", "content": text}])).finish == "length"
        assert made.store_status().tiers[1].problem == "no answer within 2 s"
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
    waited = [record for record in caplog.records if record.name.startswith("runtime.store") and record.levelno > 20]
    assert 1 <= len(waited) <= 2


def test_a_full_disk_costs_its_states_alone(engine, tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    made = engine("hybrid", store=disk(tmp_path))
    monkeypatch.setattr("os.posix_fallocate", full)
    for text in ("One", "Two", "Three"):
        assert made.generate(Request([{"role": "user", "content": text}])).finish == "length"
    status = made.store_status()
    assert (status.degraded, status.tiers[1].problem) == (("disk",), "No space left on device")
    assert sum("No space left" in record.message for record in caplog.records) == 1


def test_no_budget_is_exceeded_at_any_moment(engine, kind, tmp_path):
    """RAM for about three states, disk for about four; looked at whenever the engine does anything with the store."""
    size = engine(kind, store=disk(tmp_path / "first"))
    size.generate(ask())
    state = size.store_status().tiers[0].bytes
    limits = {"ram_bytes": 3 * state, "disk_bytes": 4 * state}
    made = engine(kind, store=StoreOptions(disk=tmp_path / "states", **limits), parallel=3)
    seen = []

    def look():
        status = made.store_status()
        seen.append([tier.bytes for tier in status.tiers])
        assert all(tier.bytes <= tier.bytes_limit for tier in status.tiers)
        made.check_integrity()

    streams = [
        made.stream(Request([{"role": "user", "content": f"{number} {WORDS}"}], max_tokens=8)) for number in range(9)
    ]
    for stream in streams:
        for _ in stream:
            look()
    look()
    assert max(ram for ram, _ in seen) > state
    assert max(written for _, written in seen) > state


def test_the_store_of_an_engine_outlives_its_reset(engine):
    made = engine("hybrid", store=StoreOptions(50_000_000))
    made.generate(ask())
    made.reset()
    assert made.generate(ask()).report.restored.source == "ram"


def test_without_a_store_there_is_no_status(engine):
    assert engine().store_status() is None


def test_what_happens_to_requests_and_states_is_counted(engine, tmp_path):
    metrics = Metrics()
    made = engine("hybrid", store=disk(tmp_path), metrics=metrics)
    made.generate(ask())
    made.generate(ask())
    with pytest.raises(Exception, match="the prompt has"):
        made.generate(Request([{"role": "user", "content": "long " * 5000}]))
    with pytest.raises(Exception, match="Roles are"):
        made.generate(Request([{"content": "no role"}]))
    until(lambda: samples(metrics).get(("spanparse_stored_bytes", "disk"), 0) > 0)
    found = samples(metrics)
    assert found["spanparse_requests_total", "length"] == 2
    assert found["spanparse_requests_total", "error"] == 2
    assert found["spanparse_stored_bytes", "disk"] > 0
    assert found["spanparse_store_works", "disk"] == 1
    assert found["spanparse_restores_total", "ram"] == 1
