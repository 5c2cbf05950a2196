"""A branch is continued until an end, a stop, a limit or a full context."""

from __future__ import annotations

import numpy as np

from runtime.memory import probe
from runtime.sampling import GREEDY, Sampling, generate
from runtime.tree.branch import Branch


def test_generation_is_cut_at_max_tokens_and_does_not_evaluate_the_last(branch):
    answer = generate(branch, GREEDY, 5)
    assert (len(answer.ids), answer.finish) == (5, "length")
    assert branch.length == 54
    assert branch.tokens[50:].tolist() == list(answer.ids[:4])


def test_nothing_asked_for_is_nothing_generated(branch):
    assert generate(branch, GREEDY, 0) == ((), "length", "", ())
    assert branch.length == 50


def test_the_token_that_ends_the_answer_is_not_part_of_it(branch, monkeypatch):
    ids = generate(branch, GREEDY, 3).ids
    branch.clear()
    rng = np.random.default_rng(1)
    branch.evaluate(rng.integers(500, 4000, 50).astype(np.int32), logits=True)
    monkeypatch.setattr(type(branch.context.model), "ends_generation", lambda self, token: token == ids[2])
    answer = generate(branch, GREEDY, 10)
    assert answer[:2] == (ids[:2], "stop")
    assert branch.length == 52


def test_generation_stops_when_the_context_is_full(branch, tokens):
    n_ctx = branch.context.n_ctx
    filler = tokens(2, n_ctx - 52)
    for begin in range(0, filler.size, 256):
        branch.evaluate(filler[begin : begin + 256], logits=begin + 256 >= filler.size)
    assert branch.length == n_ctx - 2
    answer = generate(branch, GREEDY, 10)
    assert (len(answer.ids), answer.finish) == (3, "length")
    assert branch.length == n_ctx


def again(branch):
    """Put the branch back to the end of its prompt."""
    branch.clear()
    branch.evaluate(np.random.default_rng(1).integers(500, 4000, 50).astype(np.int32), logits=True)


def test_text_is_given_out_while_it_grows(branch):
    given: list[str] = []
    answer = generate(branch, GREEDY, 12, given.append)
    assert "".join(given) == answer.text == branch.context.model.text(answer.ids)
    assert len(given) > 6
    assert all(given)


def test_a_stop_inside_a_token_ends_the_answer_before_it(branch):
    text = generate(branch, GREEDY, 12).text
    stop = text[5:9]
    cut = text.index(stop)
    again(branch)
    given: list[str] = []
    answer = generate(branch, Sampling(stop=("never", stop)), 12, given.append)
    assert (answer.text, answer.finish, "".join(given)) == (text[:cut], "stop", text[:cut])
    assert len(answer.ids) < 12
    assert branch.context.model.text(answer.ids).startswith(text[:cut] + stop)


def test_penalties_count_the_prompt(branch):
    logits, begin = branch.context.logits(), int(branch.tokens[0])
    # The prompt's first token is made the likeliest; whether it is penalised depends on how far back it counts.
    bias = tuple((token, float(logits.max() - logits[token]) + lead) for token, lead in ((begin, 11), (7, 10)))
    for last_n, expected in ((64, 7), (8, begin)):
        sampling = Sampling(presence_penalty=2.0, repeat_last_n=last_n, logit_bias=bias)
        assert generate(branch, sampling, 1).ids == (expected,)


def test_every_token_has_its_log_probability(branch):
    answer = generate(branch, Sampling(top_logprobs=2), 5)
    assert [logprob.token for logprob in answer.logprobs] == list(answer.ids)
    assert all(logprob.top[0] == (logprob.token, logprob.logprob) for logprob in answer.logprobs)


def test_a_seed_gives_the_same_text(branch):
    texts = []
    for seed in (1, 1, 2):
        again(branch)
        texts.append(generate(branch, Sampling(temperature=2, seed=seed), 12).text)
    assert texts[0] == texts[1] != texts[2]


def test_after_a_restored_state_the_same_tokens_are_drawn(context, tokens, kind):
    made = context(kind)
    branch = Branch(made, probe(made), b"")
    prompt = tokens(3, 120)
    sampling = Sampling(temperature=1.5, seed=4, repeat_penalty=1.3, top_p=0.9, top_logprobs=1)
    branch.evaluate(prompt[:100], logits=False)
    saved = branch.save()
    branch.evaluate(prompt[100:], logits=True)
    cold = generate(branch, sampling, 20)
    branch.restore(saved)
    branch.evaluate(prompt[100:], logits=True)
    assert generate(branch, sampling, 20) == cold
    branch.restore(saved)
    branch.evaluate(tokens(4, 20), logits=True)
    assert generate(branch, sampling, 20) != cold
