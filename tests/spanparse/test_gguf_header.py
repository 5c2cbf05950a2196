"""The reader is held against files written by hand, byte for byte, and against real vocabularies."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanparse.errors import SourceError
from spanparse.gguf_header import GgufHeader

STRING, ARRAY, U8, U32, I64, F32 = 8, 9, 0, 4, 11, 6
REPOSITORY = Path(__file__).parents[2]
REAL = Path(os.environ.get("SPANPARSE_TOKENIZERS", REPOSITORY.parent / "shared" / "tokenizers"))


def string(text: str, order: str = "<") -> bytes:
    data = text.encode()
    return struct.pack(f"{order}Q", len(data)) + data


def field(key: str, kind: int, value: bytes, order: str = "<") -> bytes:
    return string(key, order) + struct.pack(f"{order}I", kind) + value


def strings(texts: list[str], order: str = "<") -> bytes:
    return struct.pack(f"{order}IQ", STRING, len(texts)) + b"".join(string(text, order) for text in texts)


def gguf(*fields: bytes, order: str = "<", version: int = 3, count: int | None = None) -> bytes:
    head = b"GGUF" + struct.pack(f"{order}IQQ", version, 0, len(fields) if count is None else count)
    return head + b"".join(fields)


def sample(order: str = "<") -> bytes:
    return gguf(
        field("a.text", STRING, string("grüße", order), order),
        field("a.small", U8, b"\x07", order),
        field("a.list", ARRAY, strings(["zero", "", "two", "drei"], order), order),
        field("a.scores", ARRAY, struct.pack(f"{order}IQ2f", F32, 2, 1.0, 2.0), order),
        field("a.last", I64, struct.pack(f"{order}q", -5), order),
        order=order,
    )


def write(folder: Path, data: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("order", ["<", ">"])
def test_values_are_read_in_either_byte_order(tmp_path: Path, order: str) -> None:
    with GgufHeader(write(tmp_path, sample(order))) as header:
        assert list(header) == ["a.text", "a.small", "a.list", "a.scores", "a.last"]
        assert header.text("a.text") == "grüße"
        assert header.integer("a.small") == 7
        assert header.integer("a.last") == -5
        assert header.count("a.list") == 4
        assert header.strings("a.list", [3, 0, 1]) == {0: "zero", 1: "", 3: "drei"}


def test_what_is_missing_is_none(tmp_path: Path) -> None:
    with GgufHeader(write(tmp_path, sample())) as header:
        assert header.text("b") is None
        assert header.integer("b") is None
        assert header.count("b") is None
        assert "b" not in header


def test_a_value_of_another_type_is_refused_with_its_name(tmp_path: Path) -> None:
    with GgufHeader(write(tmp_path, sample())) as header:
        with pytest.raises(SourceError, match=r"field a\.small at byte \d+ is not a string"):
            header.text("a.small")
        with pytest.raises(SourceError, match=r"field a\.text at byte \d+ is not a whole number"):
            header.integer("a.text")
        with pytest.raises(SourceError, match=r"field a\.scores at byte \d+ is not an array of strings"):
            header.strings("a.scores", [0])
        with pytest.raises(SourceError, match=r"a\.list at byte \d+ has 4 elements, number 4 was asked for"):
            header.strings("a.list", [4])


def test_a_file_cut_anywhere_names_file_field_and_offset(tmp_path: Path) -> None:
    whole = sample()
    for length in range(len(whole)):
        path = write(tmp_path, whole[:length])
        with pytest.raises(SourceError) as caught:
            GgufHeader(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert "\n" not in text
        assert length < 4 or "at byte" in text
    GgufHeader(write(tmp_path, whole)).close()


@given(data=st.data())
def test_damaged_bytes_never_raise_anything_but_source_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = write(tmp_path_factory.getbasetemp(), bytes(damaged))
    with contextlib.suppress(SourceError), GgufHeader(path) as header:
        for key in header:
            for read in (header.text, header.integer, lambda key: header.strings(key, [0])):
                with contextlib.suppress(SourceError):
                    read(key)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a GGUF file"),
        (b"GGML" + bytes(40), "not a GGUF file"),
        (gguf(version=1), "version at byte 4 is 1"),
        (gguf(count=1 << 60), "GGUF field count at byte 16 says"),
        (gguf(struct.pack("<Q", 1 << 62) + b"x"), "(its name) at byte 24 says it is"),
        (gguf(field("k", STRING, struct.pack("<Q", 1 << 62))), "field k at byte 37 is cut short"),
        (gguf(field("k", STRING, struct.pack("<Q", 2**64 - 1))), "field k at byte 37 is cut short"),
        (gguf(field("k", ARRAY, struct.pack("<IQ", STRING, 1 << 62))), "no room for"),
        (gguf(field("k", ARRAY, struct.pack("<IQ", U32, 1 << 62))), "is cut short"),
        (gguf(field("k", ARRAY, struct.pack("<IQ", ARRAY, 0))), "has the unknown type 9"),
        (gguf(field("k", 77, b"")), "has the unknown type 77"),
        (gguf(field("k", U8, b"1"), field("k", U8, b"1")), "field k at byte 38 appears twice"),
        (gguf(struct.pack("<Q", 1) + b"\xff" + struct.pack("<I", U8) + b"1"), "is not UTF-8"),
    ],
)
def test_hostile_headers_are_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(SourceError) as caught:
        GgufHeader(path)
    assert said in str(caught.value)


def test_a_huge_file_of_empty_strings_is_refused_without_walking_it(tmp_path: Path) -> None:
    path = write(tmp_path, gguf(field("k", ARRAY, struct.pack("<IQ", STRING, 1 << 30))))
    with path.open("r+b") as file:
        # A hole in the file: it takes no room on the disk.
        file.truncate(1 << 34)
    with pytest.raises(SourceError, match="takes the strings of this file past"):
        GgufHeader(path)


def test_a_file_that_is_not_there_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        GgufHeader(tmp_path / "none.gguf")


def test_a_real_vocabulary_gives_its_tokens() -> None:
    path = REAL / "ggml-vocab-qwen35.gguf"
    if not path.is_file():
        pytest.skip(f"needs {path.name}")
    with GgufHeader(path) as header:
        eos = header.integer("tokenizer.ggml.eos_token_id")
        assert eos is not None
        assert header.strings("tokenizer.ggml.tokens", [0, eos]) == {0: "!", eos: "<|endoftext|>"}
        assert "<|im_start|>" in (header.text("tokenizer.chat_template") or "")
