"""llama.cpp's samplers, chained as asked."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.errors import DeadEnd, GrammarTooCostly, RequestError
from runtime.sampling import GREEDY, Sampler, Sampling


def draw(branch, sampling, times=200):
    with Sampler(branch.context.model, sampling) as sampler:
        return {sampler.sample(branch.context.logits())[0] for _ in range(times)}


def likeliest(branch, count):
    """The likeliest tokens, the likeliest first."""
    return np.argsort(-branch.context.logits())[:count].tolist()


def leading(branch, *tokens):
    """Biases that put these tokens in front of all others, each 1 before the next."""
    logits = branch.context.logits()
    return tuple((token, float(logits.max() - logits[token]) + 10 - place) for place, token in enumerate(tokens))


def test_at_temperature_zero_the_likeliest_token_is_chosen(branch):
    assert draw(branch, GREEDY, 3) == set(likeliest(branch, 1))


def test_top_k_leaves_the_k_likeliest(branch):
    assert draw(branch, Sampling(temperature=100, top_k=4)) == set(likeliest(branch, 4))


@pytest.mark.parametrize("narrow", [{"top_p": 1e-6}, {"min_p": 1.0}])
def test_top_p_and_min_p_leave_the_likeliest(branch, narrow):
    assert draw(branch, Sampling(temperature=1, **narrow)) == set(likeliest(branch, 1))


def test_typical_p_leaves_the_token_whose_information_is_nearest_the_mean(branch):
    logits = branch.context.logits().astype(np.float64)
    p = np.exp(logits - logits.max())
    p /= p.sum()
    information = -np.log(p)
    nearest = int(np.abs(information - (p * information).sum()).argmin())
    assert draw(branch, Sampling(temperature=1, typical_p=1e-9)) == {nearest}


def test_a_seed_makes_the_same_choices_and_another_seed_others(branch):
    drawn = []
    for seed in (1, 1, 2):
        with Sampler(branch.context.model, Sampling(temperature=100, seed=seed)) as sampler:
            drawn.append([sampler.sample(branch.context.logits()) for _ in range(20)])
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_bias_is_added_to_a_tokens_logit(branch):
    first, second = likeliest(branch, 2)
    assert draw(branch, Sampling(logit_bias=((first, -100.0),)), 1) == {second}
    assert draw(branch, Sampling(logit_bias=((7, 100.0),)), 1) == {7}


def test_a_bias_for_a_token_that_is_not_there_is_refused(branch):
    n_vocab = branch.context.model.n_vocab
    with pytest.raises(RequestError, match=f"logit_bias: {n_vocab} is no token of this model, ids are from 0 to"):
        Sampler(branch.context.model, Sampling(logit_bias=((n_vocab, 1.0),)))


@pytest.mark.parametrize("penalty", [{"repeat_penalty": 10.0}, {"frequency_penalty": 2.0}, {"presence_penalty": 2.0}])
def test_a_token_that_was_chosen_is_penalised(branch, penalty):
    # The logits stay as they are here, so without penalties the same token would come again.
    assert draw(branch, Sampling(logit_bias=leading(branch, 7, 8), **penalty), 2) == {7, 8}


def test_penalties_see_the_prompt_and_forget_what_is_long_ago(branch):
    for last_n, expected in ((2, 8), (1, 7)):
        sampling = Sampling(repeat_last_n=last_n, presence_penalty=2.0, logit_bias=leading(branch, 7, 8))
        with Sampler(branch.context.model, sampling) as sampler:
            sampler.remember([7, 9])
            assert sampler.sample(branch.context.logits())[0] == expected


def test_only_the_frequency_penalty_counts_each_occurrence(branch):
    for penalty, expected in (("frequency_penalty", 8), ("presence_penalty", 7)):
        sampling = Sampling(logit_bias=leading(branch, 7, 8), **{penalty: 0.5})
        with Sampler(branch.context.model, sampling) as sampler:
            sampler.remember([7] * 3)
            assert sampler.sample(branch.context.logits())[0] == expected


@pytest.mark.parametrize("temperature", [0.0, 5.0])
def test_a_grammar_leaves_only_what_it_derives(branch, temperature):
    model, pieces = branch.context.model, []
    with Sampler(model, Sampling(temperature=temperature, grammar='root ::= [0-9]{3} "!"')) as sampler:
        while not model.ends_generation(token := sampler.sample(branch.context.logits())[0]):
            pieces.append(model.piece(token))
    text = b"".join(pieces).decode()
    assert len(text) == 4
    assert text[:3].isdigit()
    assert text[3] == "!"


def test_where_a_grammar_leaves_nothing_an_error_is_raised_and_nothing_aborts(branch):
    # Every vocabulary at hand can spell every byte, so the tokens that could go on are forbidden.
    model = branch.context.model
    never = tuple((token, float("-inf")) for token in range(model.n_vocab) if b"7" in model.piece(token))
    with Sampler(model, Sampling(grammar='root ::= "7"', logit_bias=never)) as sampler, pytest.raises(DeadEnd):
        sampler.sample(branch.context.logits())


def test_a_grammar_that_takes_longer_with_every_token_is_given_up(branch, monkeypatch):
    monkeypatch.setattr("runtime.sampling.sampler._MOST_SECONDS", 0.1)
    model = branch.context.model
    (a,) = [token for token in range(model.n_vocab) if model.piece(token) == b"a"]
    ambiguous = Sampling(grammar="root ::= . root{0,3}", logit_bias=((a, 100.0),))
    with pytest.raises(GrammarTooCostly, match="too ambiguous, one token took"):
        draw(branch, ambiguous, 40)


def test_a_grammar_that_cannot_be_followed_is_refused_with_its_line():
    with pytest.raises(RequestError, match=r"^grammar: line 2: there is no rule named b$"):
        Sampling(grammar="root ::=\n b")


def test_log_probabilities_are_those_of_the_model_before_any_sampler(branch):
    logits = branch.context.logits().astype(np.float64)
    expected = logits - logits.max()
    expected -= np.log(np.exp(expected).sum())
    sampling = Sampling(temperature=3, top_k=2, logit_bias=((7, 100.0),), top_logprobs=5)
    with Sampler(branch.context.model, sampling) as sampler:
        token, logprob = sampler.sample(branch.context.logits())
    assert token == 7
    assert logprob is not None
    assert (logprob.token, logprob.logprob) == (7, pytest.approx(expected[7]))
    assert [token for token, _ in logprob.top] == likeliest(branch, 5)
    assert [value for _, value in logprob.top] == pytest.approx(np.sort(expected)[::-1][:5])


def test_log_probabilities_without_alternatives(branch):
    with Sampler(branch.context.model, Sampling(top_logprobs=0)) as sampler:
        _, logprob = sampler.sample(branch.context.logits())
    assert logprob is not None
    assert logprob.top == ()
