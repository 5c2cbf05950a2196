"""What a state's bytes depend on besides the tokens: model, context parameters, llama.cpp, format."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version

from runtime.store.weights import read_weights

FORMAT_VERSION = 1
"""Raised whenever stored states are laid out in another way."""


@dataclass(frozen=True, slots=True)
class Identity:
    """All that must be equal for a state to be used.

    Not in it are batch sizes, threads and the length of the context: they do not change what the bytes mean, except
    that some models turn their keys in another way in long contexts (`rope`).
    """

    format: str
    byte_order: str
    llama_cpp: str
    architecture: str
    vocabulary: str
    tensors: str
    keys_and_values: str
    rope: str

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for all of it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def difference(self, other: Mapping[str, str]) -> str | None:
        """The first thing in which a state saved under `other` (the fields of its identity) differs, in words."""
        for name, here in asdict(self).items():
            there = other.get(name, "unknown")
            if there != here:
                return f"saved with {name.replace('_', ' ')} {there}, here {here}"
        return None


def identify(path: str | os.PathLike[str], *, n_ctx_seq: int, exact: bool) -> Identity:
    """The identity of states of the GGUF model `path` in a context of `n_ctx_seq` tokens for each sequence.

    `exact` as in `ContextOptions`. Raises as `read_weights`, whose description says what is read of the file.
    """
    weights = read_weights(path)
    beyond = weights.long_rope_beyond
    return Identity(
        format=str(FORMAT_VERSION),
        byte_order=sys.byteorder,
        llama_cpp=version("llama-cpp-python"),
        architecture=weights.architecture,
        vocabulary=weights.vocabulary,
        tensors=weights.tensors,
        keys_and_values="f32" if exact else "f16",
        rope="long" if beyond is not None and n_ctx_seq > beyond else "short",
    )
