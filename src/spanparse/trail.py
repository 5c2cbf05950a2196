"""What a parse leaves for the next one of the same conversation, grown by a turn or edited near its end.

The rules of ownership look at a message's neighbours, at the markers learned from the whole text, and at nothing else.
So where the marked texts of two conversations are the same, and what was learned is too, messages own the same pieces.
Some messages in front of the first difference are worked out anew all the same: whether those come out as they did
before shows that the border is far enough from it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import attrgetter, lt, ne
from typing import Any, Final, NamedTuple, final

from spanparse.marks.marked import Runs
from spanparse.ownership.markers import Wording, learn_starts, wording
from spanparse.ownership.owners import Ownership, Settlement, pieces_of, unsettled
from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE, owners_of
from spanparse.ownership.turns import Turns
from spanparse.proof import common_prefix
from spanparse.spans import Barrier, MessageSpan, Piece, Preamble

Said = dict[str, Any]

_END: Final = attrgetter("end")
# Messages that are worked out anew in front of the first that differs, and those before them that prove the border.
_MARGIN: Final = 2
_PROOF: Final = 2
_TRIES: Final = 8


@dataclass(frozen=True, slots=True)
class Marking:
    """A marked text and what it was made of: `runs` tile `text`, `said` is what `said_by` gave of the messages."""

    template: str
    text: str
    runs: Runs
    bos: str
    roles: Sequence[str]
    said: Sequence[Said]


@final
class Trail:
    """The inner results of a parse. Nothing in it may be changed."""

    __slots__ = (
        "barriers",
        "caller_text",
        "marking",
        "messages",
        "order",
        "ownership",
        "preamble",
        "system_end",
        "turns",
    )

    def __init__(
        self,
        marking: Marking,
        ownership: Ownership,
        order: Sequence[int],
        turns: Turns,
        messages: tuple[MessageSpan, ...],
        preamble: Preamble,
        barriers: tuple[Barrier, ...],
        caller_text: tuple[Piece, ...],
        system_end: int | None,
    ) -> None:
        self.marking = marking
        self.ownership = ownership
        self.order = order
        self.turns = turns
        self.messages = messages
        self.preamble = preamble
        self.barriers = barriers
        self.caller_text = caller_text
        self.system_end = system_end

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class Head(NamedTuple):
    """What is taken over from `trail`: all messages before `message`, which are the first `pieces` pieces.

    The runs from `at` on, which begin at message `begin`, are settled again.
    """

    trail: Trail
    message: int
    pieces: int
    begin: int
    at: int

    @property
    def shown(self) -> int:
        """How many of the pieces are messages'."""
        return self.pieces - (self.trail.order[0] == PREAMBLE)


def said_by(message: dict[str, Any]) -> Said:
    """A copy of all that parts and notes look at in `message`, which the caller may change afterwards."""
    if list in map(type, message.values()):
        return {name: _copied(value) for name, value in message.items()}
    return dict(message)


def _copied(value: Any) -> Any:
    if type(value) is list:
        return [_copied(item) for item in value]
    if type(value) is dict:
        function = value.get("function")
        return {**value, "function": dict(function)} if type(function) is dict else dict(value)
    return value


def rises(order: Sequence[int]) -> bool:
    """Whether owners, in text order, are in the order of the conversation, each with one piece."""
    order = order[:-1] if order and order[-1] == GENERATION_PROMPT else order
    return all(map(lt, order, order[1:]))


def head_of(trail: Trail, marking: Marking) -> Head | None:
    """What `marking` shares with `trail`; None if that is too little to be worth while."""
    before = trail.marking
    if before.template != marking.template or before.bos != marking.bos:
        return None
    common = _common_runs(before, marking)
    if 2 * common < len(marking.runs):
        return None
    messages = [run[2][2] for run in marking.runs[:common]]
    last = next((message for message in reversed(messages) if message is not None), 0)
    told = min(len(before.said), len(marking.said), last)
    last = next(compress(count(), map(ne, before.said[:told], marking.said)), told)
    order = trail.order
    for message in range(last - _MARGIN, max(last - _MARGIN - _TRIES, _PROOF), -1):
        begin = message - _PROOF
        if message not in order or begin not in messages:
            continue
        at = messages.index(begin)
        ahead = [message for message in messages[:at] if message is not None]
        if max(ahead, default=-1) < begin and _all_from(begin, before.runs[at:], marking.runs[at:]):
            return Head(trail, message, order.index(message), begin, at)
    return None


def _common_runs(a: Marking, b: Marking) -> int:
    """How many leading runs two texts share, and their characters with them."""
    same = next(compress(count(), map(ne, a.runs, b.runs)), min(len(a.runs), len(b.runs)))
    end = b.runs[same - 1].end if same else 0
    if a.text[:end] == b.text[:end]:
        return same
    return bisect_right(b.runs, common_prefix(a.text, b.text), hi=same, key=_END)


def _all_from(begin: int, *tails: Runs) -> bool:
    return all(run[2][2] is None or run[2][2] >= begin for runs in tails for run in runs)


def grown_ownership(
    head: Head, marking: Marking, known_starts: frozenset[str], shown_without: Callable[[int], int | None]
) -> Ownership | None:
    """The ownership of `marking`, settled behind `head` only; None if what is in front of it may not stay the same.

    `known_starts` and `shown_without` are as for `assign_owners`.
    """
    before, text = head.trail.ownership, marking.text
    tail = unsettled(text, marking.runs[head.at :])
    words = None if known_starts and not before.opened else _grown_wording(head, marking)
    if words is not None and not known_starts and learn_starts(text, words) != before.starts:
        return None

    def literals() -> Iterable[str]:
        return (words or _grown_wording(head, marking)).literals

    settlement = Settlement(text, marking.roles, before.starts, marking.bos, shown_without, literals)
    if any(settlement.openers.opens(marker) != opened for marker, opened in before.opened.items()):
        return None
    pieces = pieces_of(settlement.settle(tail))
    order = owners_of(pieces)
    if not rises(order) or head.message not in order:
        return None
    place = order.index(head.message)
    proof = [piece for piece, owner in zip(pieces[:place], order, strict=False) if owner > head.begin]
    kept = before.pieces[: head.pieces]
    if not proof or kept[-len(proof) :] != proof or pieces[place][0].start != before.pieces[head.pieces][0].start:
        return None
    ownership = settlement.ownership([*kept, *pieces[place:]], words)
    # A border that is not clear may be one with a message that is taken over.
    return None if ownership.unclear else ownership


def _grown_wording(head: Head, marking: Marking) -> Wording:
    """The wording of the whole text: that of `head`'s with the tail exchanged."""
    was = head.trail.marking
    whole = head.trail.ownership.wording or wording(was.text, unsettled(was.text, was.runs, was.bos))
    old = wording(was.text, unsettled(was.text, was.runs[head.at :]))
    new = wording(marking.text, unsettled(marking.text, marking.runs[head.at :]))
    return _exchanged(whole, old, new)


def _exchanged(words: Wording, old: Wording, new: Wording) -> Wording:
    """`words` without the `old` ones and with the `new` ones."""
    return Wording(_swapped(words.literals, old.literals, new.literals), _swapped(words.leads, old.leads, new.leads))


def _swapped(counts: Counter[str], old: Iterable[str], new: Iterable[str]) -> Counter[str]:
    swapped = counts.copy()
    swapped.subtract(old)
    swapped.update(new)
    return +swapped
