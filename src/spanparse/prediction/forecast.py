"""Where the next prompt is expected to part from this one, by what a template rewrites: for a planner of states."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from spanparse.bounds.limits import Limits
from spanparse.errors import TemplateLimit
from spanparse.prediction.continuation import ContinuationName, appends
from spanparse.prediction.outcome import Prediction
from spanparse.prediction.predict import predict_rendering
from spanparse.rendering.render import DEFAULT_LIMITS, Request

if TYPE_CHECKING:
    from spanparse.sources import TemplateSource
    from spanparse.spans import Rendering
    from spanparse.tokens import Backend, TokenMap

SHARES: Final[Mapping[ContinuationName, float]] = {
    "assistant_answer": 0.05,
    "assistant_answer_with_reasoning": 0.05,
    "tool_call": 0.15,
    "user_message": 0.25,
}
"""How often each continuation that appends is what parts the next prompt from this one: the weights that `planner`
gives the same events (`planner.expectation.weights.EVENTS`) where it knows no more than the roles of messages."""

_MOST_TURNS: Final = 8
"""Conversations that may take turns without being forecast anew."""


@final
class Likely(NamedTuple):
    """The next prompt parts from this one after exactly `offset` tokens with probability `weight`."""

    offset: int
    weight: float


def likely_offsets(prediction: Prediction) -> tuple[Likely, ...]:
    """Where continuations that append part from the prompt if they lose something, ascending; none where tokens are
    unknown.

    A prompt sent again and an edited message are the client's doing, whatever the template; roles tell of them.
    """
    weights: dict[int, float] = {}
    for outcome in prediction.continuations:
        if appends(outcome.name) and outcome.kept_tokens and outcome.lost_tokens:
            weights[outcome.kept_tokens] = weights.get(outcome.kept_tokens, 0.0) + SHARES[outcome.name]
    return tuple(Likely(offset, weights[offset]) for offset in sorted(weights))


@final
class Forecast:
    """`likely_offsets` of growing conversations, at the price of at most two predictions for each turn of a user.

    What a template rewrites while tools are called does not change from one round to the next: a place before the
    answers of the turn stays, and one inside the generation prompt stays as far from the prompt's end.
    """

    def __init__(self, template: TemplateSource, backend: Backend, *, trust_content: bool = False) -> None:
        self._template = template
        self._backend = backend
        self._trust_content = trust_content
        self._turns: deque[_Turn] = deque(maxlen=_MOST_TURNS)

    def likely(
        self, rendering: Rendering, request: Request, tokens: TokenMap, *, limits: Limits = DEFAULT_LIMITS
    ) -> tuple[Likely, ...]:
        """For `request`, parsed to `rendering` and mapped to `tokens`; none where its renders run past `limits`."""
        asked = [index for index, message in enumerate(request.messages) if message.get("role") == "user"]
        last = asked[-1] if asked else -1
        answers = sum(message.get("role") == "assistant" for message in request.messages[last + 1 :])
        known = next((turn for turn in self._turns if turn.holds(rendering.text, len(asked), request.kwargs)), None)
        # The first answer brings what a template may drop later.
        if known is not None and (answers > 1 or answers == known.answers):
            return known.likely(tokens)
        try:
            prediction = predict_rendering(
                rendering,
                self._template,
                request,
                limits=limits,
                backend=self._backend,
                tokens=tokens,
                trust_content=self._trust_content,
                remedies=False,
            )
        except TemplateLimit:
            return ()
        found = likely_offsets(prediction)
        end = rendering.messages[last].end if asked else None
        if end is not None:
            if known is not None:
                self._turns.remove(known)
            edge = tokens.generation_prompt.begin if tokens.generation_prompt is not None else tokens.count
            beginning = rendering.text[:end]
            self._turns.append(_Turn(beginning, len(asked), request.kwargs, answers, found, edge, tokens.count))
        return found


@final
class _Turn(NamedTuple):
    """A forecast for a prompt of `length` tokens whose generation prompt begins at `edge`, after `answers` of the
    assistant to the last of `asked` user messages, with which `beginning` ends."""

    beginning: str
    asked: int
    kwargs: Mapping[str, Any]
    answers: int
    found: tuple[Likely, ...]
    edge: int
    length: int

    def holds(self, text: str, asked: int, kwargs: Mapping[str, Any]) -> bool:
        return asked == self.asked and kwargs == self.kwargs and text.startswith(self.beginning)

    def likely(self, tokens: TokenMap) -> tuple[Likely, ...]:
        grown = tokens.count - self.length
        moved = (Likely(offset + grown * (offset >= self.edge), weight) for offset, weight in self.found)
        # A client may have cut what stands after the user's message.
        return tuple(likely for likely in moved if 0 < likely.offset <= tokens.count)
