"""Other weights, vocabularies and architectures are told apart; what does not matter for a state does not count."""

from __future__ import annotations

import shutil

import pytest
from gguf import GGUFReader, GGUFWriter

from runtime.store.weights import read_weights
from runtime.tiny import KINDS, ensure_model, write_model
from spanparse.errors import SourceError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "hybrid.gguf"
    write_model("hybrid", path)
    return path


@pytest.fixture
def flip(model, tmp_path):
    """Flips the same bit of one byte of a copy of the model, whose path it gives."""
    copy = shutil.copy(model, tmp_path / "changed.gguf")

    def at(offset):
        with open(copy, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))
        return copy

    return at


def test_the_same_model_is_the_same_wherever_it_lies(model, tmp_path):
    assert read_weights(shutil.copy(model, tmp_path / "copy.gguf")) == read_weights(model)


def test_all_tiny_models_differ():
    assert len({read_weights(ensure_model(kind)).tensors for kind in KINDS}) == len(KINDS)


def test_another_seed_makes_other_tensors_and_the_same_vocabulary(model, tmp_path):
    write_model("hybrid", tmp_path / "other.gguf", seed=1)
    here, there = read_weights(model), read_weights(tmp_path / "other.gguf")
    assert here.tensors != there.tensors
    assert (here.architecture, here.vocabulary) == (there.architecture, there.vocabulary)


def test_another_template_is_the_same_model(model, tmp_path):
    write_model("hybrid", tmp_path / "other.gguf", template="{{ messages[0].content }}")
    assert read_weights(tmp_path / "other.gguf") == read_weights(model)


def test_a_change_at_either_end_of_any_tensor_is_seen(model, flip):
    before = read_weights(model)
    for tensor in GGUFReader(model).tensors:
        for offset in (tensor.data_offset, tensor.data_offset + int(tensor.n_bytes) - 1):
            after = read_weights(flip(offset))
            flip(offset)
            assert after.tensors != before.tensors, tensor.name
            assert after.vocabulary == before.vocabulary


def test_a_changed_word_of_the_vocabulary_is_seen(model, flip):
    field = GGUFReader(model).fields["tokenizer.ggml.tokens"]
    longest = max((bytes(field.parts[index]) for index in field.data), key=len)
    after = read_weights(flip(model.read_bytes().index(longest)))
    before = read_weights(model)
    assert after.vocabulary != before.vocabulary
    assert (after.tensors, after.architecture) == (before.tensors, before.architecture)


def test_a_changed_hyperparameter_is_seen(model, flip):
    field = GGUFReader(model).fields["qwen35.rope.freq_base"]
    after = read_weights(flip(field.offset + len("qwen35.rope.freq_base") + 8 + 4))
    before = read_weights(model)
    assert after.architecture != before.architecture
    assert (after.tensors, after.vocabulary) == (before.tensors, before.vocabulary)


def test_only_files_with_long_rope_factors_turn_keys_by_the_length_of_the_context(model):
    assert read_weights(model).long_rope_beyond is None


def test_a_file_that_ends_among_its_tensors_descriptions_is_named(model, tmp_path):
    whole = model.read_bytes()
    end = GGUFReader(model).data_offset
    (tmp_path / "short.gguf").write_bytes(whole[: end - 200])
    with pytest.raises(SourceError, match=r"short\.gguf.*cut short"):
        read_weights(tmp_path / "short.gguf")


def test_a_tensor_of_another_name_is_another_tensor(model, flip):
    after = read_weights(flip(model.read_bytes().index(b"output_norm.weight")))
    assert after.tensors != read_weights(model).tensors


def test_a_file_without_tensors_is_named(model, tmp_path):
    path = tmp_path / "vocabulary.gguf"
    writer = GGUFWriter(path, "qwen35")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(SourceError, match=r"vocabulary\.gguf.*no tensors"):
        read_weights(path)
