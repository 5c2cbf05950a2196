"""Choosing tokens with llama.cpp's own samplers, and where an answer ends."""

from __future__ import annotations

from runtime.sampling.answer import Answer, Finish, Generated
from runtime.sampling.generate import generate
from runtime.sampling.logprobs import Logprob, logprobs_json
from runtime.sampling.parameters import GREEDY, Sampling
from runtime.sampling.sampler import Sampler

__all__ = ["GREEDY", "Answer", "Finish", "Generated", "Logprob", "Sampler", "Sampling", "generate", "logprobs_json"]
