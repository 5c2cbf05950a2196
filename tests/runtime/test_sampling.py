"""llama.cpp's samplers, chained as asked."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.line import Line
from runtime.memory import probe
from runtime.sampling import GREEDY, Sampler, Sampling, generate


@pytest.fixture
def line(context, tokens):
    """A line that has just evaluated a prompt of 50 tokens."""
    made = context("hybrid")
    line = Line(made, probe(made), b"")
    line.evaluate(tokens(1, 50), logits=True)
    return line


def draw(line, sampling, times=200):
    with Sampler(sampling) as sampler:
        return {sampler.sample(line.context) for _ in range(times)}


def likeliest(line, count):
    return set(np.argsort(line.context.logits())[-count:].tolist())


def test_at_temperature_zero_the_likeliest_token_is_chosen(line):
    assert draw(line, GREEDY, 3) == likeliest(line, 1)


def test_top_k_leaves_the_k_likeliest(line):
    assert draw(line, Sampling(temperature=100, top_k=4)) == likeliest(line, 4)


def test_top_p_and_min_p_leave_the_likeliest(line):
    assert draw(line, Sampling(temperature=1, top_p=1e-6)) == likeliest(line, 1)
    assert draw(line, Sampling(temperature=1, min_p=1)) == likeliest(line, 1)


def test_a_seed_makes_the_same_choices_and_another_seed_others(line):
    hot = [Sampling(temperature=100, seed=seed) for seed in (1, 1, 2)]
    drawn = []
    for sampling in hot:
        with Sampler(sampling) as sampler:
            drawn.append([sampler.sample(line.context) for _ in range(20)])
    assert drawn[0] == drawn[1] != drawn[2]


def test_generation_is_cut_at_max_tokens_and_does_not_evaluate_the_last(line):
    answer = generate(line, GREEDY, 5)
    assert (len(answer.ids), answer.finish) == (5, "length")
    assert line.length == 54
    assert line.tokens[50:].tolist() == list(answer.ids[:4])


def test_nothing_asked_for_is_nothing_generated(line):
    assert generate(line, GREEDY, 0) == ((), "length")
    assert line.length == 50


def test_the_token_that_ends_the_answer_is_not_part_of_it(line, monkeypatch):
    ids = generate(line, GREEDY, 3).ids
    line.clear()
    rng = np.random.default_rng(1)
    line.evaluate(rng.integers(500, 4000, 50).astype(np.int32), logits=True)
    monkeypatch.setattr(type(line.context.model), "ends_generation", lambda self, token: token == ids[2])
    answer = generate(line, GREEDY, 10)
    assert answer == (ids[:2], "stop")
    assert line.length == 52


def test_generation_stops_when_the_context_is_full(line, tokens):
    n_ctx = line.context.n_ctx
    filler = tokens(2, n_ctx - 52)
    for begin in range(0, filler.size, 256):
        line.evaluate(filler[begin : begin + 256], logits=begin + 256 >= filler.size)
    assert line.length == n_ctx - 2
    answer = generate(line, GREEDY, 10)
    assert (len(answer.ids), answer.finish) == (3, "length")
    assert line.length == n_ctx
