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
from functools import cache, partial
from typing import final

from spanparse.marks.marked import Runs
from spanparse.marks.origin import GENERATION, NOWHERE, Run
from spanparse.ownership.borders import (
    close_shared_turns,
    hand_back_trailers,
    hand_on_headers,
    is_header,
    leave_default_turn,
    lend_between,
    transfer_headers,
)
from spanparse.ownership.markers import (
    CONTROL,
    ROLE_WORD,
    ROLES,
    SPACED_CLOSING,
    Openers,
    closers_end,
    ends_turn,
    has_words,
    is_closing,
    last_start,
    leads_of,
    learn_starts,
    literals_of,
    markers_of,
    names_role,
)
from spanparse.ownership.pieces import Begin, Ownership, Pieces, begins_of, with_characters
from spanparse.ownership.roles import claim_roles
from spanparse.ownership.segments import (
    GENERATION_PROMPT,
    PREAMBLE,
    Segment,
    changes_of,
    fall,
    gaps,
    get_owner,
    split_at,
)
from spanparse.ownership.stretches import Stretches

# Markers that stand right in front of another make one header with it: `<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>`.
_JOINED = re.compile(f"(?:{CONTROL.pattern})+")
# So do markers and a role in front of plain words.
_HEADER = re.compile(rf"(?:{CONTROL.pattern}|{ROLE_WORD.pattern}|\s)+", re.IGNORECASE)
_BLOCK = re.compile(r"\s*\[([A-Z_]{2,30})\]")


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
    runs, owners = _opened_with_bos(runs, first_owners(runs), len(bos) if text.startswith(bos) else 0)
    changes = changes_of(owners)
    literals = cache(partial(literals_of, text, runs))
    starts = frozenset(known_starts)
    if not starts:
        starts = learn_starts(text, literals(), leads_of(text, runs, owners, changes))
        starts -= _standing_behind(text, runs, owners, roles, starts)
    settlement = Settlement(text, roles, starts, bos, shown_without, literals)
    begins = Stretches(text, runs, owners, changes, roles, markers_of(starts), settlement.settle).begins()
    begins = _without_default_turn(text, runs, with_characters(begins, len(text)), starts)
    return Ownership(runs, begins, starts, frozenset(settlement.unclear))


def first_owners(runs: Runs) -> list[int | None]:
    """The owners that runs show by themselves.

    What stands inside the text that the template writes for one message, such as a variable, is that message's too.
    """
    owners = [GENERATION_PROMPT if run[2] is GENERATION else run[2][2] for run in runs]
    for begin, end in gaps(owners):
        owner = owners[begin - 1] if begin else None
        if owner is None or end == len(owners) or owners[end] != owner:
            continue
        if all(
            literal and not (path and path[0] == "tools") for _, _, (path, literal, _), _ in runs[begin - 1 : end + 1]
        ):
            owners[begin:end] = [owner] * (end - begin)
    return owners


def _standing_behind(
    text: str, runs: Runs, owners: Sequence[int | None], roles: Sequence[str], starts: frozenset[str]
) -> frozenset[str]:
    """Those of `starts` that name a role, if the first question has the one that names its own behind it alone."""
    naming = [start for start in starts if names_role(start, "user")]
    asked = (place for place, owner in enumerate(owners) if owner is not None and owner >= 0 and roles[owner] == "user")
    place = next((place for place in asked if not runs[place].origin.literal), None) if naming else None
    if place is None or any(start in text[: runs[place].start] for start in naming):
        return frozenset()
    owner = owners[place]
    behind = (text[run.start : run.end] for run, own in zip(runs, owners, strict=True) if own == owner)
    if not any(start in written for written in behind for start in naming):
        return frozenset()
    return frozenset(start for start in starts if names_role(start, *ROLES))


def _opened_with_bos(runs: Runs, owners: list[int | None], size: int) -> tuple[Runs, list[int | None]]:
    """The beginning-of-sequence text is the preamble's, even where a loop writes it in front of its first message."""
    place = end = 0
    while end < size and runs[place].origin.literal:
        end = runs[place].end
        place += 1
    if all(owner is None for owner in owners[:place]):
        return runs, owners
    bos = Run(0, min(size, end), NOWHERE, -1)
    if end <= size:
        return (bos, *runs[place:]), [PREAMBLE, *owners[place:]]
    return (bos, Run(size, end, runs[place - 1].origin, -1), *runs[place:]), [PREAMBLE, *owners[place - 1 :]]


def _without_default_turn(text: str, runs: Runs, begins: list[Begin], starts: frozenset[str]) -> list[Begin]:
    """`begins` without the turn that a template writes in front of the first message's own."""
    first = next((place for place, begin in enumerate(begins) if begin.owner >= 0), None)
    if first is None:
        return begins
    pieces = Pieces(text, Ownership(runs, begins, starts, frozenset()))
    left = leave_default_turn(text, [segment for place in range(first + 1) for segment in pieces[place]], starts)
    return [*with_characters(begins_of(left, runs), left[-1].end), *begins[first + 1 :]]


@final
class Settlement:
    """Gives segments to owners, as the rules for neighbours say; none of them needs more of the text than is at hand.

    `literals` gives what the template writes itself. `unclear` collects messages whose border no rule decides.
    """

    def __init__(
        self,
        text: str,
        roles: Sequence[str],
        starts: frozenset[str],
        bos: str,
        shown_without: Callable[[int], int | None],
        literals: Callable[[], Iterable[str]],
    ) -> None:
        self.unclear: set[int] = set()
        self._text = text
        self._roles = roles
        self._starts = starts
        self._bos = bos
        self._shown_without = shown_without
        self._openers = Openers(text, literals)
        self._rendered = False

    def settle(self, segments: list[Segment]) -> tuple[list[Segment], bool]:
        """`segments`, which are changed, with an owner each, and whether that depends on nothing but their looks."""
        unclear, self.unclear, self._rendered = self.unclear, set(), False
        settled = self._settled(segments)
        is_general = not self.unclear and not self._rendered
        self.unclear |= unclear
        return settled, is_general

    def _settled(self, segments: list[Segment]) -> list[Segment]:
        text, starts = self._text, self._starts
        owners = [*map(get_owner, segments)]
        # Where no message stands inside another, there is nothing to sort out between the two.
        nested = fall(owners)
        if nested:
            segments = claim_roles(text, segments)
            owners = [*map(get_owner, segments)]
            _claim_set_aside(segments, owners)
            lend_between(text, segments)
            transfer_headers(segments)
            owners = [*map(get_owner, segments)]
        resolved: list[Segment] = []
        at = 0
        for begin, end in gaps(owners):
            resolved += segments[at:begin]
            left = resolved[-1] if resolved else None
            right = segments[end] if end < len(segments) else None
            gap = segments[begin:end]
            resolved.extend(_resolve(text, gap, left, right, starts, self._bos) or self._by_render(gap, left, right))
            at = end
        resolved += segments[at:]
        if nested:
            close_shared_turns(resolved)
        resolved = hand_on_headers(text, resolved, starts, self._roles, self.unclear)
        return hand_back_trailers(text, resolved, starts, self._openers)

    def _by_render(self, gap: list[Segment], left: Segment | None, right: Segment | None) -> list[Segment]:
        """Split `gap` where a render without the message behind it ends to be the same."""
        assert left is not None
        assert left.owner is not None
        assert right is not None
        assert right.owner is not None
        self._rendered = True
        border = self._shown_without(right.owner) if right.owner > left.owner else None
        if border is None or not gap[0].start <= border <= gap[-1].end:
            between = self._text[gap[0].start : gap[-1].end]
            if closers_end(between, 0, len(between)) == len(between):
                return _owned(gap, left.owner)
            self.unclear.update((left.owner, right.owner))
            return _owned(gap, left.owner)
        return split_at(gap, border, left.owner, right.owner)


def _claim_set_aside(segments: list[Segment], owners: Sequence[int | None]) -> None:
    """Text that stands in front of an earlier message's inside a later one's words was set aside with it: it is its."""
    for begin, end in gaps(owners):
        left, right = (owners[begin - 1] if begin else None), (owners[end] if end < len(owners) else None)
        if left is None or right is None or not 0 <= right < left:
            continue
        if segments[begin - 1].is_own and not segments[end].origin.literal:
            _owned(segments[begin:end], right)


def _resolve(
    text: str,
    gap: list[Segment],
    left: Segment | None,
    right: Segment | None,
    starts: frozenset[str],
    bos: str,
) -> list[Segment] | None:
    """Split a stretch of unowned text between `left` and `right`; None if no marker can tell where."""
    before = PREAMBLE if left is None or left.owner is None else left.owner
    if right is None or right.owner == GENERATION_PROMPT:
        return _owned(gap, before)
    after = right.owner
    assert after is not None
    border = last_start(text, gap, starts)
    if border is not None and not _leads_to(text, border, right, starts):
        border = None
    if left is not None and before >= 0 and after >= 0:
        turn = right.start if border is None and is_header(text, right, tuple(starts)) else border
        if turn is not None and (blocks := _blocks_begin(text, left, gap[0].start, turn)) < turn:
            border = blocks
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


def _blocks_begin(text: str, left: Segment, begin: int, border: int) -> int:
    """Where the blocks begin that stand closed in front of the turn at `border`, such as tools; `border` without any.

    Nothing but what ends the turn before stands in front of them, at the end of `left` or from `begin` on, and
    something does: what is said behind a text that goes on belongs to it.
    """
    first = closers_end(text, begin, border)
    if first == begin and not (left.is_own and _ends_with_closing(text[left.start : left.end].rstrip())):
        return border
    at, blocks = first, border
    while found := _BLOCK.match(text, at, border):
        closing = text.find(f"[/{found[1]}]", found.end(), border)
        if closing < 0:
            return border
        blocks = min(blocks, found.start(1) - 1)
        at = closing + len(found[1]) + 3
    return border if text[at:border].strip() else blocks


def _ends_with_closing(text: str) -> bool:
    return any(found.end() == len(text) and is_closing(found[1]) for found in SPACED_CLOSING.finditer(text))


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


def _owned(gap: list[Segment], owner: int) -> list[Segment]:
    for segment in gap:
        segment.owner = owner
    return gap
