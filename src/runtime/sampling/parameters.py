"""What a request may say about the choice of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import RequestError
from runtime.sampling.gbnf import GrammarFault, check_grammar


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen: greedily at temperature 0, else by chance. Names and meanings are llama.cpp's.

    `top_k` keeps the k likeliest (0 for all), `typical_p` those of typical information up to this probability (1 for
    all), `top_p` the likeliest that make up this probability, `min_p` those at least this fraction as likely as the
    likeliest. The same `seed` makes the same choices.

    Among the last `repeat_last_n` tokens, of prompt and answer, `repeat_penalty` divides the logits of those that occur
    (1 for none), `presence_penalty` is taken off once, `frequency_penalty` for each occurrence. `logit_bias` adds to
    the logits of token ids. `grammar` (GBNF, from its rule `root`) allows only what it derives. `stop` ends the answer
    before the first of these texts. With `top_logprobs` the log probabilities of each token and of this many likeliest
    ones are kept, as the model gives them before any of the above; None for none.

    Raises `RequestError` for a grammar that llama.cpp cannot follow.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    grammar: str | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        if self.grammar is not None:
            try:
                check_grammar(self.grammar)
            except GrammarFault as error:
                raise RequestError("grammar", str(error)) from error

    @property
    def penalises(self) -> bool:
        """Whether earlier tokens count."""
        neutral = (self.repeat_penalty, self.frequency_penalty, self.presence_penalty) == (1, 0, 0)
        return self.repeat_last_n > 0 and not neutral

    def check(self, n_vocab: int) -> None:
        """Raise `RequestError` if a bias is for a token that a vocabulary of `n_vocab` tokens does not have."""
        for token, _ in self.logit_bias:
            if not 0 <= token < n_vocab:
                raise RequestError("logit_bias", f"{token} is no token of this model, ids are from 0 to {n_vocab - 1}")


GREEDY = Sampling()
