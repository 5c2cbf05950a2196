"""One conversation played under every policy, against a run that starts each prompt from nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from planner import PolicyName
    from runtime import Completion, Request
    from spanparse.conversation import Conversation

_MAX_TOKENS: Final = 16
# A tiny model gains little from a second thread, and loses much where other programs want the cores.
_THREADS: Final = 1


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: tokens evaluated, the fewest possible, and seconds until the first generated token."""

    prompt_tokens: int
    evaluated: int
    ideal: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """All turns under one policy. `identical`: every answer is the one of the run without any reuse."""

    policy: str
    turns: tuple[Turn, ...]
    identical: bool

    @property
    def evaluated(self) -> int:
        """Tokens of all turns."""
        return sum(turn.evaluated for turn in self.turns)

    @property
    def ideal(self) -> int:
        """The fewest possible of all turns."""
        return sum(turn.ideal for turn in self.turns)

    @property
    def ratio(self) -> float:
        """Sum over sum, 1.0 at best."""
        return self.evaluated / self.ideal


def requests_of(conversation: Conversation) -> list[Request]:
    """The requests that led to the conversation: one before each assistant message, one more if it ends on another."""
    from runtime import Request

    messages = conversation.messages
    ends = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if messages[-1]["role"] != "assistant":
        ends.append(len(messages))
    return [Request(messages[:end], conversation.tools, conversation.kwargs, max_tokens=_MAX_TOKENS) for end in ends]


def compare(
    model: Path, requests: Sequence[Request], policies: Sequence[PolicyName], advance: Callable[[str], None]
) -> list[Result]:
    """Plays `requests` under each policy, greedily, keys and values in 32 bits so that answers can be compared.

    `advance` is told what is about to run, before each play of one request.
    """
    from runtime import Engine

    with Engine(model, policy="none", exact=True, n_threads=_THREADS) as engine:
        cold = []
        for request in requests:
            advance("from nothing")
            engine.reset()
            cold.append(_answer(engine.generate(request)))
    results = []
    for policy in policies:
        with Engine(model, policy=policy, exact=True, n_threads=_THREADS) as engine:
            completions = []
            for request in requests:
                advance(policy)
                completions.append(engine.generate(request))
        identical = [_answer(completion) for completion in completions] == cold
        results.append(Result(policy, tuple(map(_turn, completions)), identical))
    return results


def _answer(completion: Completion) -> tuple[tuple[int, ...], str]:
    return completion.output_ids, completion.finish


def _turn(completion: Completion) -> Turn:
    report = completion.report
    return Turn(report.prompt_tokens, report.evaluated, report.ideal, time_to_first_token(asdict(report.seconds)))


def time_to_first_token(seconds: Mapping[str, float]) -> float:
    """All phases of a request's report but the decoding."""
    return sum(duration for phase, duration in seconds.items() if phase != "decode")
