"""Borders between neighbours: whose a name, a header or a trailer is that was written while another was rendered.

Each message owns its own header and trailer, whichever iteration of the template's loop wrote them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spanparse.marks.origin import Origin
from spanparse.ownership.markers import (
    Openers,
    brackets_end,
    chain_begin,
    chain_end,
    closing_header,
    ending_run,
    ends_turn,
    has_words,
    is_opening,
    is_turn,
    last_start,
    markers_of,
    names_role,
    turns_end,
)
from spanparse.ownership.segments import PREAMBLE, Segment, changes_of, get_owner, lead_end, split_at

_BORROWED = frozenset({"name", "id", "tool_call_id", "role", "type"})


def lend_between(text: str, segments: list[Segment]) -> None:
    """Give what stands inside other messages' texts, and was written on behalf of another, to those.

    That is names and ids (the called tool's name), with the template's words around one that an earlier message has
    shown already; and the white space with which a template joins texts of a turn when its loop holds the message
    behind the turn.
    """
    latest = -1
    first: dict[Origin, int] = {}
    for place in range(1, len(segments) - 1):
        before, segment, after = segments[place - 1 : place + 2]
        lender, left, right = segment.owner, before.owner, after.owner
        if left is not None and left > latest:
            latest = left
        if lender is None or left is None or right is None or left < 0:
            continue
        if not segment.origin.literal:
            if segment.origin.path[-1] not in _BORROWED:
                continue
            if left == right != lender:
                segment.owner = left
            elif 0 <= lender < latest:
                first = first or {s.origin: at for at, s in reversed([*enumerate(segments)])}
                if first[segment.origin] < place:
                    _lend_phrase(segments, place)
        elif (
            left <= right < lender
            and not before.origin.literal
            and not after.origin.literal
            and text[segment.start : segment.end].isspace()
        ):
            segment.owner = left


def _lend_phrase(segments: Sequence[Segment], place: int) -> None:
    """Give the name at `place`, with its owner's words around it, to the later message that it stands inside."""
    lender = segments[place].owner
    first, last = place, place + 1
    while first and segments[first - 1].owner == lender and segments[first - 1].is_own:
        first -= 1
    while last < len(segments) and segments[last].owner == lender and segments[last].is_own:
        last += 1
    around = segments[first - 1].owner if first else None
    if around is None or lender is None or around <= lender:
        return
    if last < len(segments) and segments[last].owner == around:
        for segment in segments[first:last]:
            segment.owner = around


def transfer_headers(segments: list[Segment]) -> None:
    """A turn's header belongs to the first message rendered in the turn.

    Where a loop writes the header for the message it holds and then puts another message's text first (a system text
    inside the user's turn), the header goes with that text, and so do tools in it or behind it, which it surrounds.
    The loop's message must go on behind it: one that has no text of its own keeps what was written for it.
    """
    last: dict[int | None, int] = {}
    seen: set[int] = set()
    at = 0
    while at < len(segments):
        owner = segments[at].owner
        if owner is None or owner < 0 or owner in seen:
            at += 1
            continue
        seen.add(owner)
        end = _header_end(segments, at)
        follower = segments[end] if end < len(segments) else None
        if (
            end > at
            and follower is not None
            and follower.owner is not None
            and follower.owner >= 0
            and follower.owner not in seen
            # In front of the template's text for another message a bare role is what it writes both messages under.
            and not (_is_written_for(follower) and any(segment.origin.literal for segment in segments[at:end]))
        ):
            last = last or {segment.owner: place for place, segment in enumerate(segments)}
            if last[owner] > end:
                for segment in (*segments[at:end], *_tools_behind(segments, end, owner)):
                    segment.owner = follower.owner
                seen.add(follower.owner)
                seen.discard(owner)
        at = max(end, at + 1)


def _header_end(segments: Sequence[Segment], place: int) -> int:
    """The place behind the template's text, a role and tools that the owner at `place` begins with there."""
    owner = segments[place].owner
    end = place
    while end < len(segments):
        segment = segments[end]
        if not (segment.is_frame if segment.owner == owner else segment.is_tools):
            break
        end += 1
    return end


def _tools_behind(segments: Sequence[Segment], place: int, owner: int) -> Sequence[Segment]:
    """What `owner` writes up to the end of a tools block, if there is one between the text at `place` and its own."""
    begin = place
    while begin < len(segments) and segments[begin].owner == segments[place].owner:
        begin += 1
    end = at = begin
    while at < len(segments) and segments[at].owner in (owner, None) and not _is_field(segments[at]):
        at += 1
        end = at if segments[at - 1].is_tools else end
    return segments[begin:end]


def _is_field(segment: Segment) -> bool:
    return not segment.origin.literal and not segment.is_tools


def _is_written_for(segment: Segment) -> bool:
    """Whether it is text that the template wrote while it held a message."""
    return segment.origin.literal and segment.origin.message is not None


def close_shared_turns(segments: list[Segment]) -> None:
    """What closes a turn belongs to the last message rendered in it.

    Where a loop renders later messages inside the turn of the one that it holds (the results of parallel calls) and
    then closes the turn, that text is the last one's, as the header is the first one's.
    """
    last = {segment.owner: place for place, segment in enumerate(segments)}
    seen: set[int | None] = set()
    for place in range(1, len(segments)):
        before, owner = segments[place - 1].owner, segments[place].owner
        seen.add(before)
        if owner is None or before is None or not 0 <= owner < before or owner not in seen:
            continue
        closing = segments[place : last[owner] + 1]
        # Of a field that is empty nothing goes on there.
        if all(s.owner == owner and (s.is_own or s.start == s.end) for s in closing):
            for segment in closing:
                segment.owner = before


def hand_on_headers(
    text: str, segments: list[Segment], starts: frozenset[str], roles: Sequence[str], unclear: set[int]
) -> list[Segment]:
    """Give a header that a template writes at the end of one message's turn to the message that it introduces.

    That is text from a start marker on, behind a message's last field, if the next message has no marker of its own, or
    one that does not name its role while this one does. A marker that names the role of the message that it stands
    behind, and not of the next, ends that one. Without a marker it is what names the next message's role, or the words
    behind the end of the turn, if the next message has no words in front of it; an answer's header among other words is
    not told from them, and goes to `unclear`.
    """
    borders = _borders(segments)
    ends = (*borders, len(segments)) if segments else ()
    last = {segments[end - 1].owner: end for end in ends}
    begun = {segments[place].owner: place for place in reversed((0, *borders)) if segments}
    result: list[Segment] = []
    openings = markers_of(starts)
    at = 0
    for place in borders:
        result += segments[at:place]
        at = place
        before, owner = result[-1].owner, segments[place].owner
        assert before is not None
        assert owner is not None
        if (
            before >= 0
            and owner >= 0
            and last[before] == place
            and result[-1].is_own
            and not is_header(text, segments[place], openings)
        ):
            lead = _lead(text, segments, place)
            introduced = _is_introduced(text, result[-1], lead, starts, roles[owner])
            if any(start in lead for start in starts) and not introduced:
                continue
            bare = introduced or not has_words(lead)
            if not _hand_on(text, result, place - begun[before], owner, starts, roles, bare=bare):
                unclear.update((before, owner))
    return result + segments[at:]


def _is_introduced(text: str, before: Segment, lead: str, starts: frozenset[str], role: str) -> bool:
    """Whether `before` ends with a start marker that names the `role` of the next message, whose `lead` has none."""
    naming = tuple(start for start in starts if names_role(start, role))
    return text[before.start : before.end].rstrip().endswith(naming) and not any(start in lead for start in naming)


def _borders(segments: Sequence[Segment]) -> list[int]:
    """The places of segments that have another owner than the one before."""
    return changes_of([*map(get_owner, segments)])


def _hand_on(
    text: str,
    before: list[Segment],
    count: int,
    owner: int,
    starts: frozenset[str],
    roles: Sequence[str],
    *,
    bare: bool,
) -> bool:
    """Give the header in the text that `before` closes with, if there is one, to `owner`; False if it is not clear.

    The message that `before` closes with begins `count` segments in front of its end. `bare` says that `owner` begins
    without words.
    """
    closing, end = before[-1].owner, before[-1].end
    assert closing is not None
    first = len(before)
    while first and before[first - 1].owner == closing and before[first - 1].is_own:
        first -= 1
    begin = before[first].start
    silent = first
    while (
        silent and before[silent - 1].owner == closing and (before[silent - 1].is_frame or before[silent - 1].is_tools)
    ):
        silent -= 1
    says_nothing = count <= len(before) - silent
    if count <= len(before) - first:
        # Without anything in front, the first marker is the message's own, and so are those joined to it.
        begin = min((at for start in starts if (at := text.find(start, begin, end)) >= 0), default=end)
        begin = max(chain_end(text, begin, end, roles[owner]), begin + 1)
    border = max((str.rfind(text, start, begin, end) for start in starts), default=-1)
    if border >= begin:
        ended = says_nothing and ending_run(text, border, end) < end
        if not ended and not _names_only(text, border, starts, roles[closing], roles[owner]):
            before[first:] = split_at(before[first:], chain_begin(text, begin, border, starts), closing, owner)
        return True
    if not bare or (says_nothing and ends_turn(text[before[first].start : end])):
        return True
    header = _plain_header(text, before[first].start, end, roles[owner])
    if header is not None:
        before[first:] = split_at(before[first:], header, closing, owner)
        return True
    asked = (roles[closing], roles[owner]) == ("user", "assistant")
    return not (asked and not says_nothing and has_words(text[begin:end]))


def _plain_header(text: str, begin: int, end: int, role: str) -> int | None:
    """Where a header without a start marker begins in what closes [begin, end), None if there is none."""
    front = max(0, begin - 1)  # a name may go on from there
    header = closing_header(text[front:end], begin - front, role)
    return None if header is None else front + header


def _names_only(text: str, border: int, starts: frozenset[str], role: str, other: str) -> bool:
    """Whether the start marker at `border` names `role`, and not `other`."""
    marker = next(start for start in starts if text.startswith(start, border))
    return names_role(marker, role) and not names_role(marker, other)


def is_header(text: str, segment: Segment, starts: tuple[str, ...]) -> bool:
    """Whether a text of the template's own begins with a start marker."""
    return segment.origin.literal and text.startswith(starts, segment.start, segment.end)


def _lead(text: str, segments: Sequence[Segment], place: int) -> str:
    """The template's text in front of the first field of the message at `place`, a role included."""
    behind = lead_end(segments, place, with_role=True)
    return text[segments[place].start : segments[behind - 1].end] if behind > place else ""


def hand_back_trailers(text: str, segments: list[Segment], starts: frozenset[str], openers: Openers) -> list[Segment]:
    """Give a trailer that a template writes in front of the next message to the message that it ends.

    That is text in front of the next message's start marker that opens nothing itself, or, without such a marker, the
    closing brackets and markers that the next message begins with; of one without fields, not the end of its own turn.
    """
    result: list[Segment] = []
    border = at = 0
    for place in _borders(segments):
        result += segments[at:place]
        at = place
        before, owner = result[-1].owner, segments[place].owner
        assert before is not None
        assert owner is not None
        # Where all of a segment goes back, the next one is what the message begins with.
        while before >= 0 and 0 <= owner != before and at < len(segments) and segments[at].owner == owner:
            if segments[at].start >= border:
                border = _trailer_end(text, segments, at, starts, openers)
            if segments[at].start >= border:
                break
            result += split_at([segments[at]], border, before, owner)
            at += 1
            if result[-1].owner == owner:
                break
    return result + segments[at:]


def _trailer_end(text: str, segments: Sequence[Segment], place: int, starts: frozenset[str], openers: Openers) -> int:
    """Where the trailer of the message before ends in the template's text that the message at `place` begins with."""
    owner, begin = segments[place].owner, segments[place].start
    if is_header(text, segments[place], tuple(starts)):
        return begin
    behind = lead_end(segments, place, with_role=False)
    end = segments[behind - 1].end if behind > place else begin
    begin = brackets_end(text, begin, end)
    marker = min((at for start in starts if (at := text.find(start, begin, end)) >= 0), default=None)
    if marker is not None:
        return begin if is_opening(text[begin:marker]) else marker
    has_field = behind < len(segments) and segments[behind].owner == owner
    closed = openers.closing_run(begin, end, turns=has_field)
    return end if has_field and closed > begin and text[closed:end].isspace() else closed


def leave_default_turn(text: str, segments: list[Segment], starts: frozenset[str]) -> list[Segment]:
    """Give a turn that a template writes in front of the first message's own, such as a default system text, to nobody.

    That is what the message begins with up to the last end of a turn in front of its first field, or up to the last
    start marker, if there are words behind another in front of that. A message without fields has an end of its own,
    and may close with a start marker that introduces the next one; there only words tell, and its role.
    """
    place = next((i for i, segment in enumerate(segments) if segment.owner is not None and segment.owner >= 0), None)
    if place is None:
        return segments
    owner, begin = segments[place].owner, segments[place].start
    assert owner is not None
    end = place
    while end < len(segments) and segments[end].owner == owner and (segments[end].is_frame or segments[end].is_tools):
        # What a template writes for a part of the content, such as a media placeholder, is the message's own.
        if segments[end].is_of_part:
            break
        end += 1
    border = last_start(text, segments[place:end], starts)
    if border is not None and not (is_turn(text[begin:border]) and has_words(text[begin:border])):
        border = None
    has_field = end < len(segments) and segments[end].owner == owner
    trailer = _trailer(text, segments, end, owner) if has_field else ""
    # Of a message without fields the role, if the template builds the header from it, shows where its turn is.
    own = end if has_field else next((i for i in range(place, end) if not segments[i].origin.literal), place)
    ends = [turns_end(text, s.start, s.end, trailer) for s in segments[place:own] if s.is_own]
    border = max((border or 0, *ends))
    if not border:
        return segments
    behind = text[border : segments[end - 1].end]
    border += len(behind) - len(behind.lstrip())
    return [*segments[:place], *split_at(segments[place:end], border, PREAMBLE, owner), *segments[end:]]


def _trailer(text: str, segments: Sequence[Segment], place: int, owner: int) -> str:
    """What the template writes behind the last field of the piece of `owner` at `place`."""
    end = place
    while end < len(segments) and segments[end].owner == owner:
        end += 1
    begin = end
    while begin > place and segments[begin - 1].is_own:
        begin -= 1
    return text[segments[begin - 1].end : segments[end - 1].end]
