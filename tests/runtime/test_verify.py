"""The comparison with a cold run notices what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from runtime import Sampling, Verifier


def test_an_answer_and_its_logits_are_confirmed(engine, tokens, kind):
    made = engine(kind)
    with Verifier(made) as verifier:
        completion = made.run_tokens(tokens(1, 200), max_tokens=8, logits=True)
        verdict = verifier.check(completion)
    assert (verdict.identical, verdict.first_difference, verdict.logit_error) == (True, None, 0.0)
    assert verdict.cold_output == completion.output


def test_an_answer_by_chance_is_confirmed_by_its_seed(engine, tokens):
    made = engine("hybrid")
    with Verifier(made) as verifier:
        completion = made.run_tokens(tokens(1, 200), max_tokens=8, sampling=Sampling(temperature=2.0, seed=5))
        assert verifier.check(completion).identical


def test_a_wrong_token_is_found_where_it_is(engine, tokens):
    made = engine("hybrid")
    with Verifier(made) as verifier:
        right = made.run_tokens(tokens(1, 200), max_tokens=8)
        wrong = list(right.output_ids)
        wrong[3] += 1
        verdict = verifier.check(replace(right, output_ids=tuple(wrong)))
    assert (verdict.identical, verdict.first_difference, verdict.logit_error) == (False, 3, None)
    assert verdict.gap > 0


def test_an_answer_that_ended_too_early_is_found(engine, tokens):
    made = engine("hybrid")
    with Verifier(made) as verifier:
        right = made.run_tokens(tokens(1, 200), max_tokens=8)
        verdict = verifier.check(replace(right, output_ids=right.output_ids[:5], finish="stop"))
    assert (verdict.identical, verdict.first_difference, verdict.gap) == (False, 5, None)


def test_a_wrong_state_is_found(engine, tokens):
    made = engine("hybrid")
    made.run_tokens(tokens(2, 200), max_tokens=0)
    wrong = made.tree.pool.tip.save()
    made.reset()
    made.run_tokens(tokens(1, 200), max_tokens=0)
    # Another conversation's recurrent state under this one's tokens.
    tip = made.tree.pool.tip
    assert tip.context.load_state(wrong.data, tip.sequence)
    prompt = np.concatenate([tokens(1, 200), tokens(3, 20)])
    with Verifier(made) as verifier:
        verdict = verifier.check(made.run_tokens(prompt, max_tokens=32, logits=True))
    assert not verdict.identical
    assert verdict.logit_error > 0.5
