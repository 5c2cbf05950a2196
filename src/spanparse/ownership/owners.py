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

from spanparse.marks.marked import Runs
from spanparse.marks.origin import GENERATION, NOWHERE, Run
from spanparse.ownership.borders import (
    hand_back_trailers,
    hand_on_headers,
    leave_default_turn,
    lend_names,
    transfer_headers,
)
from spanparse.ownership.markers import CONTROL, ROLE_WORD, ends_turn, has_words, last_start, learn_starts
from spanparse.ownership.segments import GENERATION_PROMPT, PREAMBLE, Segment, split_at

# Markers that stand right in front of another make one header with it: `<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>`.
_JOINED = re.compile(f"(?:{CONTROL.pattern})+")
# So do markers and a role in front of plain words.
_HEADER = re.compile(rf"(?:{CONTROL.pattern}|{ROLE_WORD.pattern}|\s)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Segments that tile the text, each with an owner; `starts` are the start-of-turn markers that were used.

    `unclear` holds the messages whose border with a neighbour no rule decides.
    """

    segments: list[Segment]
    starts: frozenset[str]
    unclear: frozenset[int]


def assign_owners(
    text: str,
    runs: Runs,
    roles: Sequence[str],
    known_starts: Iterable[str],
    bos: str,
    shown_without: Callable[[int], int | None],
) -> Ownership:
    """Give every character of `text`, which `runs` tile, an owner.

    `roles` are the messages' own, `known_starts` the family's start-of-turn markers, `bos` the beginning-of-sequence
    text if there is one. `shown_without(k)` tells how many characters of the text stay without message k and those
    after it, None if that cannot be rendered; it is asked only where no marker decides.
    """
    segments = _open_with_bos([_segment(run) for run in runs], len(bos) if text.startswith(bos) else 0)
    starts = frozenset(known_starts) or learn_starts(text, segments)
    lend_names(segments)
    transfer_headers(segments)
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
    resolved = hand_back_trailers(text, hand_on_headers(text, resolved, starts, roles), starts)
    resolved = leave_default_turn(text, resolved, starts)
    return Ownership(resolved, starts, frozenset(unclear))


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
    start, end, origin, source = run
    return Segment(start, end, origin, source, GENERATION_PROMPT if origin is GENERATION else origin.message)


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
    border = last_start(text, gap, starts)
    if border is not None and not _leads_to(text, border, right, starts):
        border = None
    if border is not None:
        return split_at(gap, border, before, after)
    if left is None and after >= 0 and not right.origin.literal:
        # Nothing but plain words in front of a message's text: its header, behind the beginning-of-sequence text.
        begin = gap[0].start
        lead = text[begin : gap[-1].end]
        if ends_turn(lead):
            return _owned(gap, before)
        border = begin + len(bos) if bos and lead.startswith(bos) else begin
        return split_at(gap, border, before, after)
    undecided = not starts or (before != after and has_words(text[gap[0].start : gap[-1].end]))
    if before >= 0 and after >= 0 and not right.origin.literal and undecided:
        return None
    return _owned(gap, before)


def _leads_to(text: str, border: int, right: Segment, starts: frozenset[str]) -> bool:
    """Whether the start marker at `border` introduces the text of `right`, and no turn that ends before it.

    A message that begins with a start marker of its own needs none, unless the two make one header.
    """
    between = text[border : right.start]
    if ends_turn(between):
        return False
    own = next((start for start in starts if right.origin.literal and text.startswith(start, right.start)), None)
    if own is None:
        return True
    return bool((_JOINED if CONTROL.match(own) else _HEADER).fullmatch(between))


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
    return split_at(gap, border, left, right.owner)


def _owned(gap: list[Segment], owner: int) -> list[Segment]:
    for segment in gap:
        segment.owner = owner
    return gap
