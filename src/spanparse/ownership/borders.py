"""Borders between neighbours: whose a name, a header or a trailer is that was written while another was rendered.

Each message owns its own header and trailer, whichever iteration of the template's loop wrote them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spanparse.ownership.markers import Openers, is_opening
from spanparse.ownership.segments import Segment, lead_end, split_at

_BORROWED = frozenset({"name", "id", "tool_call_id", "role", "type"})


def lend_names(segments: list[Segment]) -> None:
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


def transfer_headers(segments: list[Segment]) -> None:
    """A turn's header belongs to the first message rendered in the turn.

    Where a loop writes the header for the message it holds and then puts another message's text first (a system text
    inside the user's turn), the header goes with that text. The loop's message must go on behind it: one that has no
    text of its own keeps what was written for it.
    """
    last = {segment.owner: place for place, segment in enumerate(segments)}
    seen: set[int] = set()
    at = 0
    while at < len(segments):
        owner = segments[at].owner
        if owner is None or owner < 0 or owner in seen:
            at += 1
            continue
        seen.add(owner)
        end = lead_end(segments, at, with_role=True)
        follower = segments[end] if end < len(segments) else None
        if (
            end > at
            and last[owner] > end
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


def hand_on_headers(text: str, segments: list[Segment], starts: frozenset[str]) -> list[Segment]:
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
            if border >= max(begin, segment.start):
                result += split_at([segment], border, owner, following.owner)
                continue
        result.append(segment)
    return result


def _introduces(text: str, segments: Sequence[Segment], place: int, starts: frozenset[str]) -> bool:
    """Whether the template's text in front of a message's first field holds a start marker."""
    begin = segments[place].start
    behind = lead_end(segments, place, with_role=True)
    end = segments[behind - 1].end if behind > place else begin
    return any(str.find(text, start, begin, end) >= 0 for start in starts)


def _turn_text_begin(before: Sequence[Segment], owner: int, start: int) -> int:
    """The first place in a message's closing text where it can introduce the next one.

    That is right behind its last field; in a message without fields, behind the start marker of its own.
    """
    for segment in reversed(before):
        if segment.owner != owner:
            break
        if not segment.origin.literal:
            return start
        start = segment.start
    return start + 1


def hand_back_trailers(text: str, segments: list[Segment], starts: frozenset[str]) -> list[Segment]:
    """Give a trailer that a template writes in front of the next message to the message that it ends.

    That is text in front of the next message's start marker that opens nothing itself, or, without such a marker, the
    closing markers that the next message begins with.
    """
    openers = Openers(text, segments)
    result: list[Segment] = []
    border = 0
    for place, segment in enumerate(segments):
        owner, before = segment.owner, result[-1].owner if result else None
        assert owner is not None
        if before is not None and before >= 0 and owner >= 0 and owner != before and segment.start >= border:
            border = _trailer_end(text, segments, place, starts, openers)
        if before is not None and segment.start < border:
            result += split_at([segment], border, before, owner)
        else:
            result.append(segment)
    return result


def _trailer_end(text: str, segments: Sequence[Segment], place: int, starts: frozenset[str], openers: Openers) -> int:
    """Where the trailer of the message before ends in the template's text that the message at `place` begins with."""
    owner, begin = segments[place].owner, segments[place].start
    behind = lead_end(segments, place, with_role=False)
    end = segments[behind - 1].end if behind > place else begin
    marker = min((at for start in starts if (at := text.find(start, begin, end)) >= 0), default=None)
    if marker is not None:
        return begin if is_opening(text[begin:marker]) else marker
    has_field = behind < len(segments) and segments[behind].owner == owner
    return openers.closing_run(begin, end) if has_field else begin
