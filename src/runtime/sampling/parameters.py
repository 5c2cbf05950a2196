"""What a request may say about the choice of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from numbers import Real
from typing import Any, Final

from runtime.errors import RequestError
from runtime.sampling.gbnf import GrammarFault, check_grammar

Ranges = dict[str, tuple[float, float]]

_WHOLE: Ranges = {
    "top_k": (0, 2**31 - 1),
    "seed": (0, 2**32 - 2),  # the next one, LLAMA_DEFAULT_SEED, is another at every call
    "repeat_last_n": (0, 1 << 20),
    "top_logprobs": (0, 20),
}
_REAL: Ranges = {
    "temperature": (0, inf),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "typical_p": (0, 1),
    "repeat_penalty": (0, inf),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
}
RANGES: Final[Ranges] = {**_WHOLE, **_REAL}
"""From the least to the most that a field may be."""

ABOVE_LEAST: Final = frozenset({"top_p", "typical_p", "repeat_penalty"})
"""The fields that must be more than their least."""


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

    Raises `RequestError`, naming the field, for what is out of its range and a grammar that llama.cpp cannot follow.
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
        for name in _WHOLE:
            if name != "top_logprobs" or self.top_logprobs is not None:
                _check_whole(name, getattr(self, name))
        for name in _REAL:
            _check_real(name, getattr(self, name))
        if not isinstance(self.stop, tuple | list) or not all(isinstance(text, str) and text for text in self.stop):
            raise RequestError("stop", "should be a tuple of texts that are not empty")
        if not isinstance(self.logit_bias, tuple | list) or not all(map(_is_bias, self.logit_bias)):
            raise RequestError("logit_bias", "should be a tuple of pairs, a token id and a number")
        if not isinstance(self.grammar, str | None):
            raise RequestError("grammar", "should be a text")
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


def _check_whole(name: str, value: Any) -> None:
    least, most = RANGES[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise RequestError(name, f"should be a whole number from {least} to {most}")


def _check_real(name: str, value: Any) -> None:
    least, most = RANGES[name]
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else nan
    if not isfinite(number) or not least <= number <= most or (name in ABOVE_LEAST and number == least):
        above = f"above {least}" if name in ABOVE_LEAST else f"from {least}"
        raise RequestError(name, f"should be a number {above}" + (f" to {most}" if most < inf else ""))


def _is_bias(pair: Any) -> bool:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return False
    token, bias = pair
    return isinstance(token, int) and isinstance(bias, Real) and not isnan(bias)


GREEDY = Sampling()
