"""What the rules for owners are made of: a stretch of a prompt, the borders in it, and moves of characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from spanparse.ownership.profile import Profile
from spanparse.ownership.segments import PREAMBLE, Segment, split_at


class Move(NamedTuple):
    """Characters [start, end) of the template's own text go to `owner`."""

    start: int
    end: int
    owner: int


class Doubt(NamedTuple):
    """Nothing tells which of two messages owns the text between them."""

    messages: tuple[int, int]


Found = Iterable[Move | Doubt]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Segments of `text` from what one message says to what another says, and what the rules may ask.

    `roles` are the messages' own, `profile` the template's, `bos` the beginning-of-sequence text that the caller gave.
    `shown_without(k)` tells how many characters of the text stay without message k and those after it, None if that
    cannot be rendered.
    """

    text: str
    segments: Sequence[Segment]
    roles: Sequence[str]
    profile: Profile
    bos: str
    shown_without: Callable[[int], int | None]

    def applied(self, moves: Iterable[Move], rule: str) -> Stretch:
        """The stretch after `moves`, which `rule` has found; none of them overlap. An empty field at an end stays."""
        ordered = sorted(move for move in moves if move.start < move.end)
        segments: list[Segment] = []
        at = 0
        for segment in split_at(self.segments, sorted({border for move in ordered for border in move[:2]})):
            while at < len(ordered) and ordered[at].end <= segment.start:
                at += 1
            if at < len(ordered):
                start, end, owner = ordered[at]
                if (
                    start <= segment.start
                    and segment.end <= end
                    and (segment.start < segment.end or start < segment.end)
                ):
                    kept = segment.rule if segment.owner == owner else ""
                    segment = replace(segment, owner=owner, rule=kept or rule)
            segments.append(segment)
        return replace(self, segments=segments)

    def with_owners(self, owners: Sequence[int | None]) -> list[Move]:
        """The moves that give each segment the one of `owners` at its place."""
        moves: list[Move] = []
        for segment, owner in zip(self.segments, owners, strict=True):
            if owner is None or owner == segment.owner:
                continue
            if moves and moves[-1].end == segment.start and moves[-1].owner == owner:
                moves[-1] = moves[-1]._replace(end=segment.end)
            else:
                moves.append(Move(segment.start, segment.end, owner))
        return moves


class Border(NamedTuple):
    """Where text of `before` ends and text of `after` begins; either may be the preamble or the generation prompt.

    `tail` is what the template writes behind the last field of `before`, `gap` what it writes outside of loops, `head`
    what it writes in front of the first field of `after`, from `start` on one behind the other. `opens` is the head up
    to the first role in it. `says_before` tells whether a field stands in front of the tail, `says_after` whether one
    stands behind the head. `tools` says that a tools block stands in the gap or in the head, as null characters.
    """

    before: int
    after: int
    start: int
    tail: str
    gap: str
    head: str
    opens: str
    says_before: bool
    says_after: bool
    tools: bool

    @property
    def middle(self) -> int:
        """Where the head begins."""
        return self.start + len(self.tail) + len(self.gap)

    @property
    def end(self) -> int:
        """Where the head ends."""
        return self.middle + len(self.head)

    @property
    def text(self) -> str:
        """All that stands at the border."""
        return self.tail + self.gap + self.head


_NOBODY: Final = PREAMBLE


def borders_of(stretch: Stretch) -> list[Border]:
    """The borders in a stretch, the one behind the preamble among them."""
    segments, text = stretch.segments, stretch.text
    found = []
    place = 0
    while place < len(segments):
        first = place
        while place < len(segments) and segments[place].owner is None:
            place += 1
        if place == len(segments):
            if first < place:
                found.append(_border(text, segments, first, place))
            break
        if first < place or not place or segments[place - 1].owner != segments[place].owner:
            found.append(_border(text, segments, first, place))
        place += 1
    return found


def _border(text: str, segments: Sequence[Segment], gap: int, place: int) -> Border:
    """The border whose gap begins at the place `gap`, and whose next owner's first segment is at `place`."""
    before = segments[gap - 1].owner if gap else None
    after = segments[place].owner if place < len(segments) else None
    first = gap
    while first and segments[first - 1].owner == before and segments[first - 1].is_own:
        first -= 1
    says_before = first > 0 and segments[first - 1].owner == before
    last = opens = place
    while (
        last < len(segments) and segments[last].owner == after and (segments[last].is_frame or segments[last].is_tools)
    ):
        if segments[last].is_of_part:
            break  # what a template writes for a part of the content, such as a media placeholder, is the message's own
        last += 1
        if opens == last - 1 and segments[opens].is_own:
            opens = last
    begin = segments[first].start if first < len(segments) else segments[-1].end

    def cut(start: int, end: int) -> str:
        return "".join("\0" * (s.end - s.start) if s.is_tools else text[s.start : s.end] for s in segments[start:end])

    return Border(
        _NOBODY if before is None else before,
        _NOBODY if after is None else after,
        begin,
        cut(first, gap),
        cut(gap, place),
        cut(place, last),
        cut(place, opens),
        says_before,
        last < len(segments) and segments[last].owner == after,
        any(segment.is_tools for segment in segments[gap:last]),
    )
