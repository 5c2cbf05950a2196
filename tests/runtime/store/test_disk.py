"""The disk tier: whole states or none, within the budget, whatever happens to those who write."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.store.records import IDENTITY, fresh, make_record, same

from runtime.store import DiskTier, StateRefused, TierError, TierFull, disk
from runtime.store.record import HEAD_BYTES

ROOT = Path(__file__).resolve().parents[3]
SIZE = make_record(1).size  # bytes of each record unless it says otherwise


@pytest.fixture
def tier(tmp_path):
    return DiskTier(tmp_path / "states", bytes_limit=3 * SIZE)


def files(tier, pattern="*"):
    return sorted(path.name for path in tier.directory.glob(pattern) if path.name != ".lock")


def numbers(tier):
    return sorted(name.n_tokens for name in tier.names())


def put(tier, *n_tokens):
    """Puts records whose last uses are a second apart, whatever the file system's clock can tell apart."""
    for n in n_tokens:
        tier.put(make_record(n), IDENTITY)
        for age, path in enumerate(sorted(tier.directory.glob("*.state"), key=lambda path: -path.stat().st_mtime)):
            os.utime(path, (1e9 - age, 1e9 - age))


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a script that may import these tests' helpers."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@contextmanager
def locked(path):
    """Holds the lock that writers take on `path`."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("n_logits", [0, 100])
@pytest.mark.parametrize("size", [0, 1, 5000])
def test_what_is_put_comes_back_in_another_tier_on_the_directory(tier, size, n_logits):
    record = make_record(7, size, n_logits)
    tier.put(record, IDENTITY)
    again = DiskTier(tier.directory, bytes_limit=3 * SIZE)
    assert list(again.names()) == [record.name]
    assert same(again.load(record.name, fresh), record)


def test_the_least_recently_used_gives_way(tier):
    put(tier, 1, 2, 3)
    tier.load(make_record(1).name, fresh)
    put(tier, 4)
    assert numbers(tier) == [1, 3, 4]
    assert tier.status().bytes == 3 * SIZE


def test_a_record_that_is_there_is_not_written_again_and_counts_as_used(tier):
    put(tier, 1, 2, 3)
    before = (tier.directory / f"{make_record(1).name}.state").stat().st_ino
    put(tier, 1)
    assert (tier.directory / f"{make_record(1).name}.state").stat().st_ino == before
    put(tier, 4)
    assert numbers(tier) == [1, 3, 4]


def test_logits_that_come_later_are_added_and_not_lost_again(tier):
    name = make_record(1).name
    tier.put(make_record(1, n_logits=0), IDENTITY)
    tier.put(make_record(1), IDENTITY)
    tier.put(make_record(1, n_logits=0), IDENTITY)
    assert same(tier.load(name, fresh), make_record(1))


def test_a_state_larger_than_the_budget_is_refused_and_nothing_gives_way(tier):
    put(tier, 1, 2, 3)
    with pytest.raises(TierFull, match="larger than the budget"):
        tier.put(make_record(4, 4 * SIZE), IDENTITY)
    assert numbers(tier) == [1, 2, 3]


def test_a_smaller_budget_holds_from_the_beginning(tier):
    put(tier, 1, 2, 3)
    smaller = DiskTier(tier.directory, bytes_limit=SIZE)
    assert numbers(smaller) == [3]
    assert smaller.status().bytes == SIZE


def test_a_state_that_is_gone_is_refused(tier):
    with pytest.raises(StateRefused, match="gone"):
        tier.load(make_record(1).name, fresh)


@pytest.mark.parametrize("length", [0, 10, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 200, SIZE - 1, SIZE + 1])
def test_a_file_of_another_length_is_set_aside(tier, length):
    put(tier, 1)
    name = make_record(1).name
    os.truncate(tier.directory / f"{name}.state", length)
    with pytest.raises(StateRefused, match=r"cut short|its head says"):
        tier.load(name, fresh)
    assert list(tier.names()) == []
    assert files(tier) == [f"{name}.state.refused"]


def test_a_pipe_under_the_name_of_a_state_is_set_aside_and_not_waited_for(tier):
    name = make_record(1).name
    os.mkfifo(tier.directory / f"{name}.state")
    with pytest.raises(StateRefused):
        tier.load(name, fresh)
    assert files(tier) == [f"{name}.state.refused"]


def test_a_flipped_bit_anywhere_is_found_and_the_file_set_aside(tmp_path):
    rng = np.random.default_rng(0)
    tier = DiskTier(tmp_path, bytes_limit=1 << 20)
    for at in [*rng.integers(0, SIZE, 40).tolist(), SIZE - 1]:
        tier.put(make_record(1), IDENTITY)
        path = tmp_path / f"{make_record(1).name}.state"
        data = bytearray(path.read_bytes())
        data[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        with pytest.raises(StateRefused):
            tier.load(make_record(1).name, fresh)
        assert list(tier.names()) == []


def test_files_set_aside_count_and_are_the_first_to_give_way(tier):
    put(tier, 1, 2, 3)
    os.truncate(tier.directory / f"{make_record(3).name}.state", SIZE - 1)
    with pytest.raises(StateRefused):
        tier.load(make_record(3).name, fresh)
    assert tier.status().bytes == 3 * SIZE - 1
    put(tier, 4)
    assert numbers(tier) == [1, 2, 4]
    assert len(files(tier)) == 3


def test_what_others_keep_in_the_directory_is_left_alone(tier):
    (tier.directory / "notes.txt").write_text("x" * 10 * SIZE)
    put(tier, 1, 2, 3, 4)
    assert (tier.directory / "notes.txt").exists()
    assert numbers(tier) == [2, 3, 4]


def test_a_draft_whose_writer_died_is_removed(tier):
    (tier.directory / ".draft-0011").write_bytes(b"x" * SIZE)
    put(tier, 1, 2, 3)
    assert numbers(tier) == [1, 2, 3]
    assert files(tier, ".draft*") == []


def test_a_draft_that_is_being_written_counts_and_stays(tier):
    draft = tier.directory / ".draft-0011"
    draft.write_bytes(b"x" * 2 * SIZE)
    with locked(draft):
        put(tier, 1, 2)
        assert numbers(tier) == [2]
        with pytest.raises(TierFull, match="other processes"):
            tier.put(make_record(3, 2 * SIZE), IDENTITY)
        assert tier.status().bytes <= 3 * SIZE
    assert draft.exists()


def test_a_draft_has_its_whole_size_before_anything_is_written(tier, monkeypatch):
    sizes = []
    write = disk._write
    monkeypatch.setattr(disk, "_write", lambda *arguments: (sizes.append(tier.status().bytes), write(*arguments)))
    put(tier, 1)
    assert sizes == [SIZE]


def test_a_lock_that_is_never_released_is_an_error_and_not_a_wait_without_end(tier, monkeypatch):
    monkeypatch.setattr("runtime.store.disk._LOCK_SECONDS", 0.05)
    with locked(tier.directory / ".lock"), pytest.raises(TierError, match="another process has held"):
        tier.put(make_record(1), IDENTITY)
    assert "another process" in str(tier.status().problem)
    put(tier, 1)
    assert tier.status().problem is None


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TierError, match=r"file/states: Not a directory"):
        DiskTier(tmp_path / "file" / "states", bytes_limit=1)
    with pytest.raises(TierError, match=r"file: Not a directory"):
        DiskTier(tmp_path / "file", bytes_limit=1)


def test_only_the_owner_can_read_states(tier):
    put(tier, 1)
    assert tier.directory.stat().st_mode & 0o777 == 0o700
    assert (tier.directory / files(tier)[0]).stat().st_mode & 0o777 == 0o600


def test_a_buffer_that_cannot_be_had_costs_the_load_and_not_the_state(tier):
    put(tier, 1)

    def nothing(size, rest):
        raise TierFull("ram", "no room")

    with pytest.raises(TierFull):
        tier.load(make_record(1).name, nothing)
    assert tier.status().problem is None
    assert same(tier.load(make_record(1).name, fresh), make_record(1))


def survives_a_write_that_fails(directory, limit: int) -> None:
    """A small state is kept, a large one fails with a reason and leaves nothing behind, and then small ones work."""
    tier = DiskTier(directory, bytes_limit=1 << 30)
    tier.put(make_record(1), IDENTITY)
    with pytest.raises(TierError) as failure:
        tier.put(make_record(2, 2 * limit), IDENTITY)
    assert failure.value.reason.startswith(f"{directory}: ")
    assert [tier.status().problem] == [failure.value.reason.removeprefix(f"{directory}: ")]
    assert files(tier) == [f"{make_record(1).name}.state"]
    tier.put(make_record(3), IDENTITY)
    assert same(tier.load(make_record(3).name, fresh), make_record(3))
    assert tier.status().problem is None


def test_a_file_size_limit_is_a_clear_error_and_the_tier_goes_on(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        survives_a_write_that_fails(tmp_path, 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_a_clear_error_and_the_tier_goes_on(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", tmp_path], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    try:
        survives_a_write_that_fails(tmp_path, 200_000)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


# One child at a time writes states, new ones and longer versions of old ones, until it is killed at a random moment.
KILLS = """
import os, random, signal, sys, time
from runtime.store import DiskTier
from tests.runtime.store.records import IDENTITY, fresh, make_record, same

directory, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
limit = 4_000_000
os.mkdir(directory)

def drafts():
    return [name for name in os.listdir(directory) if name.startswith(".draft")]

def write_for_ever(pipe, base):
    tier = DiskTier(directory, bytes_limit=limit)
    for serial in range(base, base + 1000):
        for n_logits in (0, 1000):
            tier.put(make_record(serial, 300_000, n_logits), IDENTITY)
            os.write(pipe, b"%d %d\\n" % (serial, n_logits))

for kill in range(kills):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        write_for_ever(write, 1 + 1000 * kill)
        os._exit(1)
    os.close(write)
    # Once it is at work, which takes an unknown time to begin with.
    confirmed = b"".join(os.read(read, 1 << 16) for _ in range(random.randrange(1, 4)))
    time.sleep(random.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    confirmed += b"".join(iter(lambda: os.read(read, 1 << 16), b""))
    os.close(read)

    print("mid-write" if drafts() else "between")
    tier = DiskTier(directory, bytes_limit=limit)
    assert tier.status().bytes <= limit
    assert not drafts()
    there = {}
    for name in tier.names():
        record = tier.load(name, fresh)
        n_logits = 0 if record.logits is None else 1000
        assert same(record, make_record(name.n_tokens, 300_000, n_logits))
        there[name.n_tokens] = n_logits
    serial, n_logits = map(int, confirmed.splitlines()[-1].split())
    assert there[serial] >= n_logits, "a state that was reported as written is gone"
"""


def test_a_writer_killed_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path):
    seed = int.from_bytes(os.urandom(4), "little")
    result = run(KILLS, tmp_path / "states", 50, seed)
    assert result.returncode == 0, f"seed {seed}: {result.stderr}"
    assert result.stdout.count("mid-write") > 5


# Several processes put and load at once, while this one checks the budget.
TOGETHER = """
import os, random, sys
from runtime.store import disk
from runtime.store import DiskTier, StateRefused
from tests.runtime.store.records import IDENTITY, fresh, make_record, same

random.seed(sys.argv[2])
tier = DiskTier(sys.argv[1], bytes_limit=2_000_000)
for _ in range(40):
    record = make_record(random.randrange(1, 9), 300_000)
    if random.random() < 0.6:
        tier.put(record, IDENTITY)
    else:
        try:
            assert same(tier.load(record.name, fresh), record)
        except StateRefused as refused:
            assert "gone" in refused.reason, refused
"""


def test_processes_share_a_directory_and_its_budget(tmp_path):
    tier = DiskTier(tmp_path, bytes_limit=2_000_000)
    workers = [
        subprocess.Popen([sys.executable, "-c", TOGETHER, tmp_path, str(seed)], cwd=ROOT, stderr=subprocess.PIPE)
        for seed in range(3)
    ]
    while any(worker.poll() is None for worker in workers):
        # With the lock nobody can rename, which might hide a file or show it twice.
        with locked(tmp_path / ".lock"):
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2_000_000
    assert [worker.communicate()[1] for worker in workers] == [b""] * 3
    assert [worker.returncode for worker in workers] == [0] * 3
    assert all(same(tier.load(name, fresh), make_record(name.n_tokens, 300_000)) for name in list(tier.names()))
    assert files(tier, "*.refused") == []


@pytest.mark.parametrize("name", [".lock", ".draft-x"])
@pytest.mark.parametrize("kind", ["directory", "socket", "pipe", "dangling link"])
def test_what_is_no_file_under_one_of_its_names_is_left_alone(tmp_path, kind, name):
    path = tmp_path / name
    if kind == "directory":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "nowhere")
    tier = DiskTier(tmp_path, bytes_limit=3 * SIZE)
    put(tier, 2, 3)
    assert {2, 3} <= set(numbers(tier))
    assert tier.status().entries == 2
    assert os.path.lexists(path)
