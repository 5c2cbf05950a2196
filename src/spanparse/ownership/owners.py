"""Who owns each character of a marked render: a message, the preamble or the generation prompt.

Most characters say it themselves: field text names its message, and so does template text that was written while a
loop held a message. What remains, and what was written for another message than it belongs to, the rules decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from spanparse.marks.marked import Runs
from spanparse.ownership.moves import Stretch
from spanparse.ownership.pieces import Ownership, with_characters
from spanparse.ownership.profile import Profile
from spanparse.ownership.rules import settled
from spanparse.ownership.segments import Segment, changes_of, first_owners
from spanparse.ownership.stretches import Stretches


class Decision(NamedTuple):
    """Characters [start, end) of the template's own text, their owner, and the rule that gave them to it."""

    start: int
    end: int
    owner: int
    rule: str


@dataclass(frozen=True, slots=True)
class Parties:
    """What the rules know beside a text: the messages' `roles`, the template's `profile`, the caller's `bos`.

    `shown_without` is how many characters of the text stay without a message and those behind it, None if that cannot
    be rendered; it is asked only where nothing else decides.
    """

    roles: Sequence[str]
    profile: Profile
    bos: str
    shown_without: Callable[[int], int | None]


def assign_owners(text: str, runs: Runs, parties: Parties) -> Ownership:
    """Give every character of `text`, which `runs` tile, an owner."""
    settlement = _Settlement(text, parties)
    owners = first_owners(runs)
    stretches = Stretches(text, runs, owners, changes_of(owners), parties.roles, _openings(parties), settlement.settle)
    begins = with_characters(stretches.begins(), len(text))
    return Ownership(runs, begins, parties.profile.starts, frozenset(settlement.unclear))


def decisions(text: str, runs: Runs, parties: Parties) -> list[Decision]:
    """Why each stretch of the template's own text belongs to whom it does: `assign_owners`, with the rules' names."""
    owners = first_owners(runs)
    segments = [Segment(*run, owner) for run, owner in zip(runs, owners, strict=True)]
    stretch, _ = settled(Stretch(text, segments, parties.roles, parties.profile, parties.bos, parties.shown_without))
    found: list[Decision] = []
    for segment in stretch.segments:
        if segment.origin.literal and segment.start < segment.end:
            assert segment.owner is not None
            written = "written-for" if segment.owner >= 0 else "generation-prompt"
            decision = Decision(segment.start, segment.end, segment.owner, segment.rule or written)
            last = found[-1] if found else None
            if last is not None and last[1:2] + last[2:] == (decision.start, decision.owner, decision.rule):
                found[-1] = last._replace(end=decision.end)
            else:
                found.append(decision)
    return found


def _openings(parties: Parties) -> tuple[str, ...]:
    return tuple(parties.profile.openers)


@final
class _Settlement:
    """Settles stretches. `unclear` collects messages whose border with a neighbour no rule decides."""

    def __init__(self, text: str, parties: Parties) -> None:
        self.unclear: set[int] = set()
        self._text = text
        self._parties = parties
        self._rendered = False

    def settle(self, segments: list[Segment]) -> tuple[Sequence[Segment], bool]:
        """`segments` with an owner each, and whether that depends on nothing but their looks."""
        parties = self._parties
        self._rendered = False
        stretch, unclear = settled(
            Stretch(self._text, segments, parties.roles, parties.profile, parties.bos, self._shown_without)
        )
        self.unclear |= unclear
        return stretch.segments, not unclear and not self._rendered

    def _shown_without(self, index: int) -> int | None:
        self._rendered = True
        return self._parties.shown_without(index)
