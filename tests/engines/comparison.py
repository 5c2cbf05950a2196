"""One pair in two engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from tests.engines.pair import Outcome, Pair, Refused, ours

from spanparse.shared import common_prefix

Agreement = Literal["same", "differs", "only ours", "only theirs", "both refuse"]

_BEFORE: Final = 24
_AFTER: Final = 56


class Comparison(NamedTuple):
    """`ours` and `theirs` show both texts where they part, or the reason of who refuses; empty if they agree.

    `cause` says why they differ, as `cause_of` does.
    """

    template: str
    shape: str
    setting: str
    generation: bool
    agreement: Agreement
    ours: str = ""
    theirs: str = ""
    cause: str = ""


def compare(
    pair: Pair, render: Callable[[Pair], Outcome], cause_of: Callable[[Pair, str], str] = lambda *_: ""
) -> Comparison:
    """Our rendering of a pair beside another's; `cause_of` explains the other's text where it differs."""
    one, other = ours(pair), render(pair)
    where = (pair.template.name, pair.shape, pair.setting, pair.generation)
    if isinstance(one, Refused) or isinstance(other, Refused):
        return Comparison(*where, _refusal(one, other), _reason(one), _reason(other))
    if one == other:
        return Comparison(*where, "same")
    at = common_prefix(one, other)
    near = slice(max(0, at - _BEFORE), at + _AFTER)
    return Comparison(*where, "differs", one[near], other[near], cause_of(pair, other))


def _refusal(one: Outcome, other: Outcome) -> Agreement:
    if isinstance(one, Refused) and isinstance(other, Refused):
        return "both refuse"
    return "only theirs" if isinstance(one, Refused) else "only ours"


def _reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Refused) else ""
