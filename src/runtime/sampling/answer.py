"""An answer while it grows: its text up to a stop, and when it ends."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Literal, NamedTuple, final

from runtime.llama import Model
from runtime.sampling.logprobs import Logprob
from runtime.sampling.parameters import Sampling

Finish = Literal["stop", "length", "cancelled", "error"]


class Generated(NamedTuple):
    """An answer's tokens without the one that ended it, how it ended, its text, and log probabilities if asked for.

    `text` ends before a stop text, which `ids` still spell.
    """

    ids: tuple[int, ...]
    finish: Finish
    text: str = ""
    logprobs: tuple[Logprob, ...] = ()


@final
class StopSearch:
    """Finds the stop text that is complete first; of those complete at the same character the longest.

    So it does not matter how a text comes in pieces. `held` is what cannot be given out yet: it may become a stop.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self.held = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """What is certain to come before any stop, and whether one was found; nothing may be fed after that."""
        text = self.held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.held = ""
            return text[: min(found)[1]], True
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep], False


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` begin `stop`."""
    most = min(len(text), len(stop) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(stop[:size])), 0)


@final
class Answer:
    """Takes an answer's tokens one by one; `finish` is set once it has ended.

    Text comes out as soon as it is certain: not before a UTF-8 sequence is complete (what never becomes one turns into
    replacement characters), nor while it may still become a stop text.
    """

    def __init__(self, model: Model, sampling: Sampling, max_tokens: int) -> None:
        self.finish: Finish | None = None if max_tokens else "length"
        self._model = model
        self._max_tokens = max_tokens
        self._ids: list[int] = []
        self._logprobs: list[Logprob] = []
        self._text: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = StopSearch(sampling.stop)

    def add(self, token: int, logprob: Logprob | None = None) -> str:
        """Take the next token; the text that is certain now. After it, `finish` says whether to go on."""
        if self._model.ends_generation(token):
            return self.end("stop")
        self._ids.append(token)
        if logprob is not None:
            self._logprobs.append(logprob)
        text, stopped = self._stops.feed(self._decoder.decode(self._model.piece(token)))
        if stopped:
            self.finish = "stop"
        elif len(self._ids) == self._max_tokens:
            return self._keep(text) + self.end("length")
        return self._keep(text)

    def end(self, finish: Finish) -> str:
        """The answer ends here: the rest of its text."""
        self.finish = finish
        text, stopped = self._stops.feed(self._decoder.decode(b"", final=True))
        if stopped:
            self.finish = "stop"
        return self._keep(text + self._stops.held)

    def result(self) -> Generated:
        """The whole answer so far; `cancelled` if it has not ended."""
        return Generated(tuple(self._ids), self.finish or "cancelled", "".join(self._text), tuple(self._logprobs))

    def _keep(self, text: str) -> str:
        self._text.append(text)
        return text
