"""Rules for messages that stand inside another one's text: borrowed names, turns that several messages share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spanparse.marks.origin import Origin
from spanparse.ownership.chunks import chunks, find_first, is_marker
from spanparse.ownership.forms import closes_by_form
from spanparse.ownership.moves import Doubt, Found, Move, Stretch
from spanparse.ownership.segments import Segment, fall, get_owner

_BORROWED = frozenset({"name", "id", "tool_call_id", "role", "type"})


def _is_nested(stretch: Stretch) -> bool:
    return fall(map(get_owner, stretch.segments))


def foreign_roles(stretch: Stretch) -> Found:
    """A role inside another message's words: the marker around it may be either's."""
    segments = stretch.segments
    for place in range(1, len(segments) - 1):
        before, segment, after = segments[place - 1 : place + 2]
        if segment.origin.literal or segment.origin.path[-1] != "role" or segment.owner is None:
            continue
        if before.is_own and after.is_own and before.owner == after.owner != segment.owner and before.owner is not None:
            yield Doubt((before.owner, segment.owner))


def lent_names(stretch: Stretch) -> Found:
    """Names and ids inside other messages' texts, with the words around one that an earlier message has shown."""
    if not _is_nested(stretch):
        return
    segments, owners = stretch.segments, [*map(get_owner, stretch.segments)]
    latest = -1
    first: dict[Origin, int] = {}
    for place in range(1, len(segments) - 1):
        lender, left, right = owners[place], owners[place - 1], owners[place + 1]
        if left is not None and left > latest:
            latest = left
        origin = segments[place].origin
        if lender is None or left is None or right is None or left < 0 or origin.literal:
            continue
        if origin.path[-1] not in _BORROWED:
            continue
        if left == right != lender:
            owners[place] = left
        elif 0 <= lender < latest:
            first = first or {s.origin: at for at, s in reversed([*enumerate(segments)])}
            if first[origin] < place:
                _lend_phrase(segments, owners, place)
    yield from stretch.with_owners(owners)


def _lend_phrase(segments: Sequence[Segment], owners: list[int | None], place: int) -> None:
    """Give the name at `place`, with its owner's words around it, to the later message that it stands inside."""
    lender = owners[place]
    first, last = place, place + 1
    while first and owners[first - 1] == lender and segments[first - 1].is_own:
        first -= 1
    while last < len(segments) and owners[last] == lender and segments[last].is_own:
        last += 1
    around = owners[first - 1] if first else None
    if around is None or lender is None or around <= lender:
        return
    if last < len(segments) and owners[last] == around:
        owners[first:last] = [around] * (last - first)


def joints(stretch: Stretch) -> Found:
    """What stands between two texts in a turn while the loop holds a message that comes later."""
    if not _is_nested(stretch):
        return
    segments = stretch.segments
    for before, segment, after in zip(segments, segments[1:], segments[2:], strict=False):
        if before.owner is None or segment.owner is None or after.owner is None or not segment.origin.literal:
            continue
        if before.origin.literal or after.origin.literal or not before.owner <= after.owner < segment.owner:
            continue
        if before.owner >= 0 and stretch.text[segment.start : segment.end].isspace():
            yield Move(segment.start, segment.end, after.owner)


def shared_headers(stretch: Stretch) -> Found:
    """A turn's header belongs to the first message rendered in the turn.

    Where a loop writes the header for the message it holds and then puts another message's text first (a system text
    inside the user's turn), the header goes with that text, and so do tools in it or behind it, which it surrounds.
    The loop's message must go on behind it: one that has no text of its own keeps what was written for it.
    """
    if not _is_nested(stretch):
        return
    segments, owners = stretch.segments, [*map(get_owner, stretch.segments)]
    last = {owner: place for place, owner in enumerate(owners)}
    seen: set[int] = set()
    at = 0
    while at < len(segments):
        owner = owners[at]
        if owner is None or owner < 0 or owner in seen:
            at += 1
            continue
        seen.add(owner)
        end = _header_end(segments, owners, at)
        follower = owners[end] if end < len(segments) else None
        if (
            end > at
            and follower is not None
            and follower >= 0
            and follower not in seen
            # In front of the template's text for another message a bare role is what it writes both messages under.
            and not (_is_written_for(segments[end]) and any(segment.origin.literal for segment in segments[at:end]))
            and last[owner] > end
        ):
            for place in (*range(at, end), *_tools_behind(segments, owners, end, owner)):
                owners[place] = follower
            seen.add(follower)
            seen.discard(owner)
        at = max(end, at + 1)
    yield from stretch.with_owners(owners)


def _header_end(segments: Sequence[Segment], owners: Sequence[int | None], place: int) -> int:
    """The place behind the template's text, a role and tools that the owner at `place` begins with there."""
    owner, end = owners[place], place
    while end < len(segments) and (segments[end].is_frame if owners[end] == owner else segments[end].is_tools):
        end += 1
    return end


def _tools_behind(segments: Sequence[Segment], owners: Sequence[int | None], place: int, owner: int) -> range:
    """What `owner` writes up to the end of a tools block, if there is one between the text at `place` and its own."""
    begin = place
    while begin < len(segments) and owners[begin] == owners[place]:
        begin += 1
    end = at = begin
    while at < len(segments) and owners[at] in (owner, None) and (segments[at].origin.literal or segments[at].is_tools):
        at += 1
        end = at if segments[at - 1].is_tools else end
    return range(begin, end)


def _is_written_for(segment: Segment) -> bool:
    """Whether it is text that the template wrote while it held a message."""
    return segment.origin.literal and segment.origin.message is not None


def shared_middles(stretch: Stretch) -> Found:
    """The template's text between a message's and that of a later one whose header it took.

    What closes something by its form is the first one's; whose another marker is, is not clear.
    """
    segments = stretch.segments
    for place, (before, segment) in enumerate(pairwise(segments), 1):
        if before.owner is None or segment.owner is None or not 0 <= before.owner < segment.owner:
            continue
        shares = any(s.rule == "shared-header" and s.origin.message == segment.owner for s in segments[:place])
        if not (shares and segment.is_own):
            continue
        end = place
        while end < len(segments) and segments[end].owner == segment.owner and segments[end].is_own:
            end += 1
        if end == len(segments) or segments[end].owner != segment.owner:
            continue
        text = stretch.text[segment.start : segments[end - 1].end]
        closed = closes_by_form(text)
        if closed:
            yield Move(segment.start, segment.start + closed, before.owner)
        elif any(map(is_marker, chunks(text))) and find_first(text.lstrip(), stretch.profile.openers) != 0:
            yield Doubt((before.owner, segment.owner))


def shared_ends(stretch: Stretch) -> Found:
    """What closes a turn belongs to the last message rendered in it.

    Where a loop renders later messages inside the turn of the one that it holds (the results of parallel calls) and
    then closes the turn, that text is the last one's, as the header is the first one's.
    """
    if not _is_nested(stretch):
        return
    segments, owners = stretch.segments, [*map(get_owner, stretch.segments)]
    last = {owner: place for place, owner in enumerate(owners)}
    seen: set[int | None] = set()
    for place in range(1, len(segments)):
        before, owner = owners[place - 1], owners[place]
        seen.add(before)
        if owner is None or before is None or not 0 <= owner < before or owner not in seen:
            continue
        closing = range(place, last[owner] + 1)
        # Of a field that is empty nothing goes on there.
        if all(
            owners[at] == owner and (segments[at].is_own or segments[at].start == segments[at].end) for at in closing
        ):
            for at in closing:
                owners[at] = before
    yield from stretch.with_owners(owners)
