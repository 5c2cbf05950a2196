"""What a tiny model generates depends on its whole prompt, which tests of saved states rely on."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest

from runtime.tiny import KINDS, write_model
from runtime.tiny.architecture import Kind, Tensor, architecture
from runtime.tiny.vocabulary import hf_tokenizer

pytest.importorskip("gguf", reason="gguf is not installed")
llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
np = pytest.importorskip("numpy", reason="numpy is not installed")

CORPUS = Path(__file__).resolve().parents[2] / "fixtures" / "corpus.txt"
N_PREFIX, N_SUFFIX, N_GENERATED = 380, 20, 64
# Prompts that share a suffix; each is compared with the next of its group.
GROUP = 11

Tokens = list[int]


def prompts(n_pairs: int) -> list[list[Tokens]]:
    """Groups of prompts cut from the corpus, equal in their last 20 tokens, with `n_pairs` neighbours in all."""
    corpus = hf_tokenizer().encode(CORPUS.read_text(encoding="utf-8")).ids
    random = Random(1)

    def cut(length: int) -> Tokens:
        start = random.randrange(len(corpus) - length)
        return corpus[start : start + length]

    groups = []
    for _ in range(n_pairs // (GROUP - 1)):
        suffix = cut(N_SUFFIX)
        groups.append([cut(N_PREFIX) + suffix for _ in range(GROUP)])
    return groups


@contextmanager
def loaded(path: Path, n_seq: int) -> Iterator[Any]:
    """A llama.cpp context of F32 caches for `n_seq` sequences."""
    model_params = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), model_params)
    assert model
    params = llama_cpp.llama_context_default_params()
    params.n_seq_max = n_seq
    params.n_ctx = n_seq * 512
    # Threads that wait for each other spin, which is slow where other tests run beside this one.
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
    params.flash_attn_type = 0
    params.swa_full = False
    context = llama_cpp.llama_init_from_model(model, params)
    assert context
    try:
        yield context
    finally:
        llama_cpp.llama_free(context)
        llama_cpp.llama_model_free(model)


def greedy(path: Path, group: list[Tokens]) -> list[Tokens]:
    """The 64 likeliest next tokens after each prompt of the group, generated side by side."""
    with loaded(path, len(group)) as context:
        n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(llama_cpp.llama_get_model(context)))
        batch = llama_cpp.llama_batch_init(N_PREFIX + N_SUFFIX, 0, 1)

        def decode(entries: list[tuple[int, int, int, bool]]) -> list[int]:
            batch.n_tokens = len(entries)
            for index, (token, position, seq_id, wanted) in enumerate(entries):
                batch.token[index] = token
                batch.pos[index] = position
                batch.n_seq_id[index] = 1
                batch.seq_id[index][0] = seq_id
                batch.logits[index] = wanted
            assert llama_cpp.llama_decode(context, batch) == 0
            n_wanted = sum(entry[3] for entry in entries)
            logits = llama_cpp.llama_get_logits(context)
            array = np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (n_wanted, n_vocab))
            return [int(token) for token in array.argmax(axis=1)]

        last = len(group[0]) - 1
        generated = [
            decode([(token, position, seq_id, position == last) for position, token in enumerate(prompt)])
            for seq_id, prompt in enumerate(group)
        ]
        for step in range(1, N_GENERATED):
            tokens = decode([(output[-1], last + step, seq_id, True) for seq_id, output in enumerate(generated)])
            for output, token in zip(generated, tokens, strict=True):
                output.append(token)
        llama_cpp.llama_batch_free(batch)
    return generated


@pytest.fixture(scope="module", params=KINDS)
def outputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[list[Tokens]]:
    """What the model of each kind says to prompts that hold 100 pairs."""
    path = tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf"
    write_model(request.param, path)
    return [greedy(path, group) for group in prompts(100)]


def share_changed(outputs: list[list[Tokens]]) -> float:
    pairs = [pair for group in outputs for pair in pairwise(group)]
    return sum(one != other for one, other in pairs) / len(pairs)


def write_naive_model(kind: Kind, path: Path) -> None:
    """The same shapes filled as one would at first: small weights, embeddings of unit size that are the head too."""
    from runtime.tiny.file import write_file

    def naive(tensor: Tensor) -> Tensor:
        if tensor.name == "token_embd.weight":
            return replace(tensor, std=1.0)
        if tensor.name.endswith("ssm_dt.bias"):
            return replace(tensor, mean=0.0)
        return replace(tensor, std=0.02 if tensor.std else 0.0)

    model = architecture(kind, 128)
    tensors = tuple(naive(tensor) for tensor in model.tensors if tensor.name != "output.weight")
    write_file(replace(model, tensors=tensors), path, width=128, seed=0, template="")


def test_a_changed_distant_prefix_changes_what_is_generated(outputs: list[list[Tokens]]) -> None:
    assert share_changed(outputs) >= 0.95


def test_outputs_are_varied(outputs: list[list[Tokens]]) -> None:
    distinct = [len(set(output)) for group in outputs for output in group]
    assert median(distinct) >= 40
    assert min(distinct) >= 20


@pytest.mark.parametrize("kind", KINDS)
def test_naive_weights_forget_the_prefix(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.gguf"
    write_naive_model(kind, path)
    assert share_changed([greedy(path, group) for group in prompts(20)]) < 0.5
