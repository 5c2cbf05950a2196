"""Who owns each character of a marked render: a message, the preamble or the generation prompt.

Most characters say it themselves: field text names its message, and so does template text that was written while a
loop held a message. What remains is template text outside such loops. The rule for it is one for all templates: text
from the last start-of-turn marker on belongs to the message that it introduces, text before it to the message that it
follows, and before the first message to the preamble. The start markers are the family's, or learned from the text
that the template's own loop writes in front of its messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spanparse.marked import Runs
from spanparse.origin import GENERATION, NOWHERE, Origin, Run

PREAMBLE: Final = -1
GENERATION_PROMPT: Final = -2

_CONTROL = re.compile(
    r"<\|[^<>|\s]{1,40}\|?>|<[^<>|\s/]{1,40}\|>|<[a-z_]*(?:start|turn|bos)[a-z_]*>|<｜[^｜]{1,40}｜>|\[[A-Z_]{2,30}\]"
)
_BORROWED = frozenset({"name", "id", "tool_call_id", "role", "type"})


@dataclass(slots=True)
class Segment:
    """Characters [start, end) of one run, with their owner: a message index, `PREAMBLE` or `GENERATION_PROMPT`."""

    start: int
    end: int
    origin: Origin
    source: int
    owner: int | None

    @property
    def is_tools(self) -> bool:
        """Text of the tools block."""
        path = self.origin.path
        return bool(path) and path[0] == "tools"


@dataclass(frozen=True, slots=True)
class Ownership:
    """Segments that tile the text, each with an owner; `starts` are the start-of-turn markers that were used.

    `unclear` holds the messages whose border with a neighbour no rule decides.
    """

    segments: list[Segment]
    starts: frozenset[str]
    unclear: frozenset[int]


def assign_owners(
    text: str, runs: Runs, known_starts: Iterable[str], bos: str, shown_without: Callable[[int], int | None]
) -> Ownership:
    """Give every character of `text`, which `runs` tile, an owner.

    `known_starts` are the family's start-of-turn markers, `bos` the beginning-of-sequence text if there is one.
    `shown_without(k)` tells how many characters of the text stay without message k and those after it, None if that
    cannot be rendered; it is asked only where no marker decides.
    """
    segments = _open_with_bos([_segment(run) for run in runs], len(bos) if text.startswith(bos) else 0)
    starts = frozenset(known_starts) or _learn_starts(text, segments)
    _lend(segments)
    _transfer_headers(segments)
    unclear: set[int] = set()
    resolved: list[Segment] = []
    at = 0
    while at < len(segments):
        if segments[at].owner is not None:
            resolved.append(segments[at])
            at += 1
            continue
        end = at
        while end < len(segments) and segments[end].owner is None:
            end += 1
        left = resolved[-1].owner if resolved else None
        right = segments[end] if end < len(segments) else None
        gap = segments[at:end]
        resolved.extend(
            _resolve(text, gap, left, right, starts, bos) or _by_render(gap, left, right, shown_without, unclear)
        )
        at = end
    return Ownership(_hand_on_headers(text, resolved, starts), starts, frozenset(unclear))


def _open_with_bos(segments: list[Segment], size: int) -> list[Segment]:
    """The beginning-of-sequence text is the preamble's, even where a loop writes it in front of its first message."""
    if not size or segments[0].owner is None or not segments[0].origin.literal:
        return segments
    first, *rest = segments
    bos = Segment(0, min(size, first.end), NOWHERE, -1, PREAMBLE)
    if first.end <= size:
        return [bos, *rest]
    return [bos, Segment(size, first.end, first.origin, -1, first.owner), *rest]


def _segment(run: Run) -> Segment:
    origin = run.origin
    owner = GENERATION_PROMPT if origin is GENERATION else origin.message
    return Segment(run.start, run.end, origin, run.source, owner)


def _learn_starts(text: str, segments: Sequence[Segment]) -> frozenset[str]:
    """The markers that the template's loop writes in front of messages; empty where it writes none."""
    starts: set[str] = set()
    begun: set[int] = set()
    previous: int | None = None
    for segment in segments:
        owner = segment.owner
        if owner is not None and owner >= 0 and owner not in begun and owner != previous:
            begun.add(owner)
            literal = text[segment.start : segment.end] if segment.origin.literal else ""
            found = _CONTROL.match(literal.lstrip())
            if found:
                starts.add(found[0])
            elif (words := literal.strip()) and len(words) > 2:
                starts.add(words)
        previous = owner if owner is not None else previous
    return frozenset(starts)


def _lend(segments: list[Segment]) -> None:
    """Names and ids of one message that stand inside another's text (the called tool's name) belong to the latter."""
    for before, segment, after in zip(segments, segments[1:], segments[2:], strict=False):
        if (
            not segment.origin.literal
            and segment.owner is not None
            and segment.origin.path[-1] in _BORROWED
            and before.owner == after.owner
            and before.owner is not None
            and before.owner >= 0
        ):
            segment.owner = before.owner


def _transfer_headers(segments: list[Segment]) -> None:
    """A turn's header belongs to the first message rendered in the turn.

    Where a loop writes the header for the message it holds and then puts another message's text first (a system text
    inside the user's turn), the header goes with that text.
    """
    seen: set[int] = set()
    at = 0
    while at < len(segments):
        owner = segments[at].owner
        if owner is None or owner < 0 or owner in seen:
            at += 1
            continue
        seen.add(owner)
        end = at
        while end < len(segments) and segments[end].owner == owner and _is_frame(segments[end]):
            end += 1
        follower = segments[end] if end < len(segments) else None
        if (
            end > at
            and follower is not None
            and follower.owner is not None
            and follower.owner >= 0
            and follower.owner not in seen
            and not follower.origin.literal
        ):
            for segment in segments[at:end]:
                segment.owner = follower.owner
            seen.add(follower.owner)
            seen.discard(owner)
        at = max(end, at + 1)


def _is_frame(segment: Segment) -> bool:
    """Template text, or the role that a template builds its header from."""
    return segment.origin.literal or segment.origin.path[-1] == "role"


def _resolve(
    text: str,
    gap: list[Segment],
    left: int | None,
    right: Segment | None,
    starts: frozenset[str],
    bos: str,
) -> list[Segment] | None:
    """Split a stretch of unowned text between `left` and `right`; None if no marker can tell where."""
    before = PREAMBLE if left is None else left
    if right is None:
        return _owned(gap, before)
    after = right.owner
    assert after is not None
    introduced = right.origin.literal and any(text.startswith(start, right.start) for start in starts)
    border = None if introduced else _last_start(text, gap, starts)
    if border is not None:
        return _split(gap, border, before, after)
    if left is None and after >= 0 and not right.origin.literal:
        # Nothing but plain words in front of a message's text: its header, behind the beginning-of-sequence text.
        begin = gap[0].start
        lead = text[begin : gap[-1].end]
        border = begin + len(bos) if bos and lead.startswith(bos) else begin
        return _split(gap, border, before, after)
    if before >= 0 and after >= 0 and not right.origin.literal and not starts:
        return None
    return _owned(gap, before)


def _by_render(
    gap: list[Segment],
    left: int | None,
    right: Segment | None,
    shown_without: Callable[[int], int | None],
    unclear: set[int],
) -> list[Segment]:
    """Split `gap` where a render without the message behind it ends to be the same."""
    assert left is not None
    assert right is not None
    assert right.owner is not None
    border = shown_without(right.owner) if right.owner > left else None
    if border is None or not gap[0].start <= border <= gap[-1].end:
        unclear.update((left, right.owner))
        return _owned(gap, left)
    return _split(gap, border, left, right.owner)


def _hand_on_headers(text: str, segments: list[Segment], starts: frozenset[str]) -> list[Segment]:
    """Give a header that a template writes at the end of one message's turn to the message that it introduces.

    That is text from a start marker on, behind a message's last field, if the next message has no marker of its own.
    """
    last = {segment.owner: place for place, segment in enumerate(segments)}
    result: list[Segment] = []
    for place, segment in enumerate(segments):
        following = segments[place + 1] if place + 1 < len(segments) else None
        owner = segment.owner
        assert owner is not None
        if (
            following is not None
            and following.owner is not None
            and owner >= 0
            and following.owner >= 0
            and last[owner] == place
            and segment.origin.literal
            and not _introduces(text, segments, place + 1, starts)
        ):
            begin = _turn_text_begin(result, owner, segment.start)
            border = max((str.rfind(text, start, begin, segment.end) for start in starts), default=-1)
            if border > begin and border >= segment.start:
                result += _split([segment], border, owner, following.owner)
                continue
        result.append(segment)
    return result


def _introduces(text: str, segments: Sequence[Segment], place: int, starts: frozenset[str]) -> bool:
    """Whether the template's text in front of a message's first field holds a start marker."""
    owner, begin = segments[place].owner, segments[place].start
    end = begin
    while place < len(segments) and segments[place].owner == owner and _is_frame(segments[place]):
        end = segments[place].end
        place += 1
    return any(str.find(text, start, begin, end) >= 0 for start in starts)


def _turn_text_begin(before: Sequence[Segment], owner: int, start: int) -> int:
    """Where the template's text that ends a message's piece begins: behind its last field, or at the piece's begin."""
    for segment in reversed(before):
        if segment.owner != owner or not segment.origin.literal:
            break
        start = segment.start
    return start


def _last_start(text: str, gap: Sequence[Segment], starts: frozenset[str]) -> int | None:
    """Offset of the last start marker in the template's text of `gap`."""
    for segment in reversed(gap):
        if segment.is_tools:
            continue
        found = max((str.rfind(text, start, segment.start, segment.end) for start in starts), default=-1)
        if found >= 0:
            return found
    return None


def _owned(gap: list[Segment], owner: int) -> list[Segment]:
    for segment in gap:
        segment.owner = owner
    return gap


def _split(gap: list[Segment], border: int, before: int, after: int) -> list[Segment]:
    result = []
    for segment in gap:
        if segment.start < border < segment.end:
            head = Segment(segment.start, border, segment.origin, segment.source, before)
            tail = Segment(border, segment.end, segment.origin, -1, after)
            result += [head, tail]
        else:
            segment.owner = before if segment.end <= border else after
            result.append(segment)
    return result
