from __future__ import annotations

import io
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from spanparse import files
from spanparse.cli import main
from spanparse.errors import SourceError
from spanparse.files import read_bounded, read_file, replacing


def fill(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text)


def test_a_file_is_replaced_by_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    for text in ("one", "two"):
        fill(path, text)
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def fail(path: Path, error: BaseException) -> None:
    with replacing(path) as draft:
        draft.write_text("ne")
        raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises((SourceError, KeyboardInterrupt)):
        fail(path, error)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("9 requested and 4 written"), "9 requested and 4 written; is the disk full?"),
    ],
)
def test_the_error_names_the_file_and_the_reason(tmp_path: Path, error: OSError, said: str) -> None:
    path = tmp_path / "page.html"
    with pytest.raises(SourceError) as raised:
        fail(path, error)
    assert str(raised.value) == f"{path}: cannot be written ({said})"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none/x: cannot be written \(No such file or directory\)$"):
        fill(tmp_path / "none" / "x", "")


def test_permissions_stay_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "page.html", tmp_path / "link"
    path.touch(0o640)
    path.chmod(0o640)
    link.symlink_to(path)
    fill(link, "new")
    assert path.read_text() == "new"
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_device_is_written_to_and_not_replaced() -> None:
    fill(Path(os.devnull), "x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(("size", "read"), [(0, True), (10, True), (11, False)])
def test_reading_stops_past_the_limit(size: int, read: bool) -> None:
    data = b"x" * size
    assert read_bounded(io.BytesIO(data), 10) == (data if read else None)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_what_is_open_already_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as end:
        fill(Path(f"/dev/fd/{writing}"), "through a pipe")
        os.close(writing)
        assert end.read() == "through a pipe"
    with (tmp_path / "out").open("w+") as file:
        fill(Path(f"/dev/fd/{file.fileno()}"), "into an open file")
        assert file.read() == "into an open file"


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SILENCE_SECONDS", 0.1)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"nothing came out of it for 0\.1 s"):
        read_file(path, 10)
    conversation = ["--messages", str(path)]
    for arguments in (["inspect", str(path)], ["inspect", "chatml", *conversation], ["analyse", str(path)]):
        assert main(arguments) == 2
    for arguments in (["inspect", "chatml", "--tokenizer", str(path)], ["run", "dense", "--requests", str(path)]):
        assert main(arguments) == 2
    path.rename(tmp_path / "pipe.gguf")
    assert main(["inspect", str(tmp_path / "pipe.gguf")]) == 2


def test_a_pipe_is_read_to_its_end_however_slowly_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            for byte in (b"a", b"b", b"c"):
                time.sleep(0.05)
                pipe.write(byte)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(path, 10) == b"abc"
    writer.join()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_device_without_end_is_no_tokenizer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "chatml", "--tokenizer", "/dev/zero"]) == 2
    assert "larger than 256 MiB" in capsys.readouterr().err
