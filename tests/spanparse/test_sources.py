from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spanparse.errors import SourceError
from spanparse.sources import bundled_names, bundled_template, load_source

if TYPE_CHECKING:
    from collections.abc import Iterator

GREET = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"


def write_gguf(path: Path, templates: dict[str, str], **ids: int) -> Path:
    gguf = pytest.importorskip("gguf", reason="the gguf package (extra [runtime]) writes the file")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "</s>", "a", "b", "<pad>"])
    writer.add_token_types([3, 3, 1, 1, 3])
    for name, token in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", token)
    if templates:
        writer.add_chat_template([{"name": name, "template": text} for name, text in templates.items()])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def write_folder(folder: Path, config: object, **files: str) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    for name, text in files.items():
        (folder / name.replace("__", "/")).parent.mkdir(exist_ok=True)
        (folder / name.replace("__", "/")).with_suffix(".jinja").write_text(text, "utf-8")
    return folder


def test_a_template_file_is_taken_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "greet.jinja"
    path.write_bytes(b"{{ 'a' }}\r\n")
    found = load_source(str(path))
    assert found.source == str(path)
    assert found.text == "{{ 'a' }}\r\n"
    assert found.sha256 == hashlib.sha256(b"{{ 'a' }}\r\n").hexdigest()
    assert (found.variant, found.special_tokens, found.tokenizer) == (None, {}, None)


def test_a_dash_reads_standard_input() -> None:
    assert load_source("-", stdin=io.BytesIO(GREET.encode())).text == GREET


def test_a_gguf_gives_template_special_tokens_and_itself_as_tokenizer(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"default": GREET}, bos=0, eos=1, padding=4)
    found = load_source(str(path))
    assert found.text == GREET
    assert found.variant is None
    assert found.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    assert found.tokenizer == str(path)


def test_a_gguf_is_known_by_its_first_bytes_whatever_its_name(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "blob", {"default": GREET})
    assert load_source(str(path)).text == GREET


def test_a_gguf_with_named_variants_chooses_like_transformers(tmp_path: Path) -> None:
    path = str(write_gguf(tmp_path / "m.gguf", {"default": "plain", "tool_use": "tools", "rag": "docs"}))
    assert [load_source(path).text, load_source(path).variant] == ["plain", "default"]
    assert [load_source(path, tools=True).text, load_source(path, tools=True).variant] == ["tools", "tool_use"]
    assert load_source(path, "rag", tools=True).text == "docs"


def test_an_unknown_variant_lists_those_there_are(tmp_path: Path) -> None:
    path = str(write_gguf(tmp_path / "m.gguf", {"default": "plain", "rag": "docs"}))
    with pytest.raises(SourceError, match=r"no template named tool \(it has default, rag\)"):
        load_source(path, "tool")


def test_a_gguf_without_template_says_so(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {})
    with pytest.raises(SourceError, match=r"m\.gguf: no chat template in this GGUF \(no field tokenizer"):
        load_source(str(path))


def test_a_gguf_whose_bos_lies_outside_its_vocabulary_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"default": GREET}, bos=99)
    with pytest.raises(SourceError, match=r"tokenizer\.ggml\.tokens at byte \d+ has 5 elements, number 99"):
        load_source(str(path))


def test_a_truncated_gguf_names_file_offset_and_field(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"default": GREET}, bos=0)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match=r"m\.gguf: GGUF field tokenizer\.chat_template at byte \d+ is cut short"):
        load_source(str(path))


def test_a_folder_with_a_string_template_and_both_spellings_of_tokens(tmp_path: Path) -> None:
    config = {
        "chat_template": GREET,
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "special": True},
        "unk_token": None,
        "add_bos_token": True,
        "extra_special_tokens": {"image_token": "<image>"},
    }
    (write_folder(tmp_path, config) / "tokenizer.json").write_text("{}")
    found = load_source(str(tmp_path))
    assert found.text == GREET
    assert found.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "image_token": "<image>"}
    assert found.tokenizer == str(tmp_path / "tokenizer.json")


def test_a_special_tokens_map_fills_in_what_the_configuration_leaves_out(tmp_path: Path) -> None:
    write_folder(tmp_path, {"chat_template": GREET, "bos_token": "<s>"})
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<old>", "eos_token": "</s>"}))
    assert load_source(str(tmp_path)).special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}


def test_a_folder_with_a_list_of_templates_chooses_by_name(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    write_folder(tmp_path, {"chat_template": named})
    assert load_source(str(tmp_path)).text == "plain"
    assert load_source(str(tmp_path), tools=True).text == "tools"


def test_several_templates_without_a_default_are_listed(tmp_path: Path) -> None:
    write_folder(tmp_path, {"chat_template": [{"name": "rag", "template": "docs"}]})
    with pytest.raises(SourceError, match=r"no default among its templates \(it has rag; --variant NAME chooses\)"):
        load_source(str(tmp_path))


def test_template_files_win_over_the_configuration(tmp_path: Path) -> None:
    write_folder(
        tmp_path, {"chat_template": "old"}, chat_template="new", additional_chat_templates__tool_use="with tools"
    )
    assert load_source(str(tmp_path)).text == "new"
    assert load_source(str(tmp_path), tools=True).text == "with tools"


def test_a_processor_folder_of_the_older_kind_is_read(tmp_path: Path) -> None:
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": GREET}))
    assert load_source(str(tmp_path)).text == GREET


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "no chat template in this folder"),
        ([], "tokenizer_config.json: not a JSON object"),
        ({"chat_template": 3}, "neither a string nor a list"),
        ({"chat_template": [{"name": "x"}]}, "neither a string nor a list"),
        ({"chat_template": "\ud800"}, "half a surrogate pair"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(tmp_path: Path, config: Any, said: str) -> None:
    write_folder(tmp_path, config)
    with pytest.raises(SourceError, match=said):
        load_source(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("t.jinja", b"abc\xff", r"t\.jinja: not UTF-8 \(byte 3\)"),
        ("tokenizer_config.json", b"{}", "give the folder that holds it"),
        ("model.gguf", b"", "not a GGUF file"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=said):
        load_source(str(tmp_path / name))


def test_a_broken_configuration_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(SourceError, match=r"tokenizer_config\.json: not valid JSON"):
        load_source(str(tmp_path))


def test_an_unknown_name_lists_the_bundled_templates() -> None:
    with pytest.raises(SourceError, match="no such file, and no bundled template of that name"):
        load_source("nowhere")
    with pytest.raises(SourceError, match="no bundled template of that name"):
        bundled_template("nowhere")


def test_a_tiny_model_s_name_is_answered_by_where_its_file_comes_from() -> None:
    with pytest.raises(SourceError, match=r"^hybrid: .*runtime\.tiny\.ensure_model"):
        load_source("hybrid")


def test_every_bundled_template_can_be_loaded_by_name() -> None:
    assert "chatml" in bundled_names()
    assert list(bundled_names()) == sorted(bundled_names())
    for name in bundled_names():
        assert load_source(name).text == bundled_template(name)


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(SourceError):
        load_source("a\0b")


def piped(data: bytes) -> Iterator[Path]:
    """A pipe that `data` can be read from once, as a shell's `<(…)` hands it over."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield Path(f"/dev/fd/{reading}")
    finally:
        os.close(reading)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_pipe_is_read_as_a_template() -> None:
    for path in piped(b"{{ messages }}"):
        assert load_source(str(path)).text == "{{ messages }}"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_gguf_from_a_pipe_is_refused() -> None:
    for path in piped(b"GGUF\3\0\0\0"):
        with pytest.raises(SourceError, match="a GGUF has to be an ordinary file"):
            load_source(str(path))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_device_without_end_is_read_up_to_the_limit() -> None:
    with pytest.raises(SourceError, match="larger than 64 MiB"):
        load_source("/dev/zero")
