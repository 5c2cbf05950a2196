"""Choosing the next token, with llama.cpp's own samplers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np

from runtime.line import Line
from runtime.llama import Context, lib

Finish = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen: greedily at temperature 0, else by chance.

    `top_k` keeps the k likeliest (0 for all), `top_p` the likeliest that make up this probability, `min_p` those at
    least this fraction as likely as the likeliest. The same `seed` makes the same choices.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


GREEDY = Sampling()


@final
class Sampler:
    """A chain of llama.cpp's samplers, in the order of llama.cpp's defaults; free it with `close()`."""

    def __init__(self, sampling: Sampling) -> None:
        self._chain: Any = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for sampler in _samplers(sampling):
            lib.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, context: Context) -> int:
        """The next token after the last one evaluated with logits."""
        return int(lib.llama_sampler_sample(self._chain, context.pointer, -1))

    def close(self) -> None:
        """Free the chain and its samplers. Closing twice is fine."""
        if self._chain is not None:
            lib.llama_sampler_free(self._chain)
            self._chain = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _samplers(sampling: Sampling) -> list[Any]:
    if sampling.temperature <= 0:
        return [lib.llama_sampler_init_greedy()]
    samplers = []
    if sampling.top_k > 0:
        samplers.append(lib.llama_sampler_init_top_k(sampling.top_k))
    if sampling.top_p < 1:
        samplers.append(lib.llama_sampler_init_top_p(ctypes.c_float(sampling.top_p), 1))
    if sampling.min_p > 0:
        samplers.append(lib.llama_sampler_init_min_p(ctypes.c_float(sampling.min_p), 1))
    samplers.append(lib.llama_sampler_init_temp(ctypes.c_float(sampling.temperature)))
    samplers.append(lib.llama_sampler_init_dist(sampling.seed))
    return samplers


class Generated(NamedTuple):
    """An answer's tokens without the one that ended it, and whether it ended or was cut short."""

    ids: tuple[int, ...]
    finish: Finish


def generate(line: Line, sampling: Sampling, max_tokens: int) -> Generated:
    """Continue `line`, whose last token was evaluated with logits, by at most `max_tokens`.

    The last token is not evaluated, since nothing needs what comes after it. Stops short when the context is full.
    Raises `DecodeError`.
    """
    ids: list[int] = []
    model, n_ctx = line.context.model, line.context.n_ctx
    token = np.zeros(1, dtype=np.int32)
    with Sampler(sampling) as sampler:
        while len(ids) < max_tokens:
            chosen = sampler.sample(line.context)
            if model.ends_generation(chosen):
                return Generated(tuple(ids), "stop")
            ids.append(chosen)
            if len(ids) == max_tokens or line.length == n_ctx:
                break
            token[0] = chosen
            line.evaluate(token, logits=True)
    return Generated(tuple(ids), "length")
