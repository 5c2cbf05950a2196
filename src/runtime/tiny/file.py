"""Write a tiny architecture and the shared vocabulary, or a tiny projector, as a GGUF file. Needs gguf and numpy, so
import it late.

The same arguments give the same bytes: weights come from numpy's frozen legacy generator, seeded for each tensor by the
model's seed and the tensor's name.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import gguf
import numpy as np
import numpy.typing as npt

from runtime.tiny import vocabulary
from runtime.tiny.architecture import CONTEXT_LENGTH, EPSILON, Architecture, Tensor
from runtime.tiny.projector import Projector

_Value = bool | int | float | str | list[int] | list[float]


def write_file(arch: Architecture, path: Path, *, width: int, seed: int, template: str) -> None:
    """Write the model to `path`, replacing what is there. Raises OSError when it cannot be written."""
    writer = gguf.GGUFWriter(path, arch.name)
    writer.add_name(f"spanparse tiny {arch.name}")
    writer.add_block_count(arch.n_layers)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(width)
    writer.add_layer_norm_rms_eps(EPSILON)
    for key, value in arch.metadata.items():
        _add_value(writer, f"{arch.name}.{key}", value)
    _add_vocabulary(writer, template)
    _finish(writer, arch.tensors, seed)


def write_projector_file(projector: Projector, path: Path, *, seed: int) -> None:
    """Write the projector to `path`, replacing what is there. Raises OSError when it cannot be written."""
    writer = gguf.GGUFWriter(path, "clip")
    for key, value in projector.metadata.items():
        _add_value(writer, key, value)
    _finish(writer, projector.tensors, seed)


def _finish(writer: gguf.GGUFWriter, tensors: tuple[Tensor, ...], seed: int) -> None:
    for tensor in tensors:
        writer.add_tensor(tensor.name, _values(tensor, seed))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_value(writer: gguf.GGUFWriter, key: str, value: _Value) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _add_vocabulary(writer: gguf.GGUFWriter, template: str) -> None:
    entries = vocabulary.entries()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.PRE_TOKENIZER)
    writer.add_token_list([entry.text for entry in entries])
    writer.add_token_types([entry.type for entry in entries])
    writer.add_token_merges([" ".join(pair) for pair in vocabulary.merges()])
    # Never added, but without it llama.cpp would take id 11, a mere byte, for the beginning of a sequence.
    writer.add_bos_token_id(vocabulary.token_id(vocabulary.PADDING))
    writer.add_eos_token_id(vocabulary.token_id(vocabulary.END_OF_TURN))
    writer.add_eot_token_id(vocabulary.token_id(vocabulary.END_OF_TURN))
    writer.add_pad_token_id(vocabulary.token_id(vocabulary.PADDING))
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)


def _values(tensor: Tensor, seed: int) -> npt.NDArray[np.float32]:
    if tensor.std == 0.0:
        return np.full(tensor.shape, tensor.mean, dtype=np.float32)
    draws = np.random.RandomState([seed, crc32(tensor.name.encode())]).standard_normal(tensor.shape)
    values: npt.NDArray[np.float32] = (tensor.mean + tensor.std * draws).astype(np.float32)
    values[list(tensor.zero_rows)] = 0.0
    return values
