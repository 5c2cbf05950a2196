"""The choice of one token, by llama.cpp's own samplers."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import numpy.typing as npt

from runtime.closing import Closing
from runtime.errors import DeadEnd, GrammarTooCostly, RequestError
from runtime.llama import Model, lib
from runtime.sampling.logprobs import Logprob, logprob_of
from runtime.sampling.parameters import Sampling

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data

# llama.cpp follows every way to read the answer so far, and some grammars multiply these with each character. It cannot
# be interrupted, so growth is noticed while it is small, if the tokens that make it are short: a long one may already
# be too much.
_MOST_SECONDS = 2.0


@final
class Sampler(Closing):
    """llama.cpp's samplers in the order of its server: biases, grammar, penalties, top k, typical, top p, min p,
    temperature. Free it with `close()`.

    It remembers the tokens it was given, so it serves one answer. Raises `RequestError` for a bias of a token that the
    model does not have and for a grammar that llama.cpp refuses.
    """

    def __init__(self, model: Model, sampling: Sampling) -> None:
        sampling.check(model.n_vocab)
        self._model = model
        self._top = sampling.top_logprobs
        self._bias = dict(sampling.logit_bias)
        self._candidates = np.zeros(model.n_vocab, dtype=_CANDIDATE)
        self._chain: Any = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        self._grammar: Any = None
        if sampling.grammar is not None:
            self._grammar = lib.llama_sampler_init_grammar(
                lib.llama_model_get_vocab(model.pointer), sampling.grammar.encode(), b"root"
            )
            if not self._grammar:
                self.close()
                raise RequestError("grammar", "llama.cpp refuses it")
        for sampler in _samplers(sampling, model.n_vocab):
            lib.llama_sampler_chain_add(self._chain, sampler)

    def remember(self, tokens: Iterable[int]) -> None:
        """Let tokens of the prompt count for the penalties."""
        for token in tokens:
            lib.llama_sampler_accept(self._chain, token)

    def sample(self, logits: npt.NDArray[np.float32]) -> tuple[int, Logprob | None]:
        """The next token after `logits`, of shape (n_vocab,), and if asked for its log probability.

        Raises `DeadEnd` if the grammar allows no token here, and `GrammarTooCostly`.
        """
        token = self._choose(self._allowed(logits))
        logprob = None if self._top is None else logprob_of(logits, token, self._top)
        if self._grammar is not None:
            with _bounded():
                lib.llama_sampler_accept(self._grammar, token)
        lib.llama_sampler_accept(self._chain, token)
        return token, logprob

    def _allowed(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """The candidates, without those that the grammar forbids.

        A forbidden one must not even be improbable: rounding can choose it, and llama.cpp ends the process then.
        """
        candidates = self._candidates
        candidates["id"] = np.arange(candidates.size)
        candidates["logit"] = logits
        candidates["p"] = 0
        for token, bias in self._bias.items():
            candidates["logit"][token] += bias
        if self._grammar is None:
            return candidates
        with _bounded():
            lib.llama_sampler_apply(self._grammar, ctypes.byref(_array(candidates)))
        allowed: npt.NDArray[Any] = candidates[np.isfinite(candidates["logit"])]
        if not allowed.size:
            raise DeadEnd
        return allowed

    def _choose(self, candidates: npt.NDArray[Any]) -> int:
        array = _array(candidates)
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    def close(self) -> None:
        """Free the samplers. Closing twice is fine."""
        for sampler in (self._chain, self._grammar):
            if sampler:
                lib.llama_sampler_free(sampler)
        self._chain = self._grammar = None


@contextmanager
def _bounded() -> Iterator[None]:
    start = time.thread_time()
    yield
    if (seconds := time.thread_time() - start) > _MOST_SECONDS:
        raise GrammarTooCostly(seconds)


def _array(candidates: npt.NDArray[Any]) -> Any:
    """llama.cpp's view of candidates, which must outlive it."""
    data = candidates.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))
    return lib.llama_token_data_array(data=data, size=candidates.size, selected=-1, sorted=False)


def _samplers(sampling: Sampling, n_vocab: int) -> list[Any]:
    samplers = []
    if sampling.penalises:
        samplers.append(
            lib.llama_sampler_init_penalties(
                n_vocab,
                sampling.repeat_last_n,
                sampling.repeat_penalty,
                sampling.frequency_penalty,
                sampling.presence_penalty,
            )
        )
    if sampling.temperature <= 0:
        return [*samplers, lib.llama_sampler_init_greedy()]
    if sampling.top_k > 0:
        samplers.append(lib.llama_sampler_init_top_k(sampling.top_k))
    if sampling.typical_p < 1:
        samplers.append(lib.llama_sampler_init_typical(sampling.typical_p, 1))
    if sampling.top_p < 1:
        samplers.append(lib.llama_sampler_init_top_p(sampling.top_p, 1))
    if sampling.min_p > 0:
        samplers.append(lib.llama_sampler_init_min_p(sampling.min_p, 1))
    samplers.append(lib.llama_sampler_init_temp(sampling.temperature))
    samplers.append(lib.llama_sampler_init_dist(sampling.seed))
    return samplers
