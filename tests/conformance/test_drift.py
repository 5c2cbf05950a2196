"""Answers that real models sampled, rendered again as history: random weights seldom spell as the tokeniser does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.engine import Completion, Engine
from runtime.requests import Request
from runtime.sampling import Sampling
from runtime.tiny import KINDS, ensure_model, vocabulary
from spanparse import Rendering, TemplateSource, parse
from spanparse.tokens import (
    Backend,
    HuggingFaceTokenizer,
    LlamaVocabulary,
    TokenMap,
    find_drift,
    keep_sampled,
    token_map,
)

# Templates that trim answers change their text, which is another matter.
TEXT = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TEMPLATE = TemplateSource("untrimmed", TEXT, "", None, {}, None)
ASK = [{"role": "user", "content": "Describe the weather on a mountain in winter."}]
TINY = HuggingFaceTokenizer(vocabulary.hf_tokenizer())


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    path = ensure_model(request.param)
    with Engine(path, template=TEMPLATE, n_ctx=1024, n_batch=256, n_ubatch=128, n_threads=1, exact=True) as made:
        yield made


@pytest.fixture(scope="module")
def llama() -> LlamaVocabulary:
    return LlamaVocabulary(ensure_model("dense"))


def history(answer: str) -> list[dict[str, Any]]:
    return [*ASK, {"role": "assistant", "content": answer}, {"role": "user", "content": "And in spring?"}]


def sampled(engine: Engine, seed: int) -> Completion:
    """An answer of 64 tokens, greedy for seed 0."""
    sampling = Sampling(temperature=0.0 if seed == 0 else 1.0, seed=seed)
    engine.reset()
    return engine.generate(Request(ASK, max_tokens=64, sampling=sampling))


def rendered(answer: str, backend: Backend) -> tuple[Rendering, TokenMap]:
    rendering = parse(TEMPLATE, history(answer))
    return rendering, token_map(rendering, backend, template=TEMPLATE.text)


def test_sampled_answers_drift_and_are_kept(engine: Engine, llama: LlamaVocabulary) -> None:
    drifted = 0
    for seed in range(6):
        answer = sampled(engine, seed)
        evaluated = [*answer.token_ids, *answer.output_ids]
        rendering, tokens = rendered(answer.output, llama)
        drift = find_drift(evaluated, rendering, tokens, llama)
        assert find_drift(evaluated, *rendered(answer.output, TINY), TINY) == drift
        kept = keep_sampled(evaluated, rendering, tokens, llama)
        assert kept.ids[: len(evaluated)] == evaluated
        assert llama.pieces.spell(kept.ids) == rendering.text.encode()
        if drift is None:
            assert tokens.ids[: len(evaluated)] == evaluated
        else:
            drifted += 1
            assert len(answer.token_ids) <= drift.token < len(evaluated)
            assert (drift.where, drift.same_text) == ("messages[1].content", True)
    assert drifted >= 3


@pytest.mark.parametrize("seed", range(2))
def test_the_next_prompt_evaluates_nothing_of_a_kept_answer_again(
    engine: Engine, llama: LlamaVocabulary, seed: int
) -> None:
    answer = sampled(engine, seed)
    evaluated = [*answer.token_ids, *answer.output_ids]
    rendering, tokens = rendered(answer.output, llama)
    kept = keep_sampled(evaluated, rendering, tokens, llama)
    # The last sampled token is not evaluated until something follows it.
    warm = engine.run_tokens(kept.ids, max_tokens=1, logits=True)
    assert warm.report.reused >= len(evaluated) - 1
    engine.reset()
    cold = engine.run_tokens(kept.ids, max_tokens=1, logits=True)
    assert warm.logits is not None
    assert cold.logits is not None
    # Tokens were evaluated one by one there and in batches here; the smallest genuine error met is 0.04.
    assert np.abs(warm.logits - cold.logits).max() < 0.02


def test_without_keeping_them_the_next_prompt_leaves_the_line_where_the_drift_says(
    engine: Engine, llama: LlamaVocabulary
) -> None:
    for seed in range(6):
        answer = sampled(engine, seed)
        evaluated = [*answer.token_ids, *answer.output_ids]
        drift = find_drift(evaluated, *rendered(answer.output, llama), llama)
        again = engine.generate(Request(history(answer.output), max_tokens=0))
        assert again.report.reused <= (len(evaluated) if drift is None else drift.token)
