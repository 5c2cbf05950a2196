"""Rules for neighbours: whose a header or a trailer is that was written while another message was rendered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spanparse.families import bos_of
from spanparse.ownership.chunks import begins_with, chunks, find_first, find_last, is_blank, is_marker
from spanparse.ownership.forms import brackets_in, closes_by_name, header_naming
from spanparse.ownership.moves import Border, Doubt, Found, Move, Stretch, borders_of
from spanparse.ownership.segments import PREAMBLE

_DECIDE: Final = frozenset({"shared-middle", "closing-head", "introduction", "opening", "render", "name"})


def _to(border: Border, place: int) -> list[Move]:
    """The moves that make the text of a border end at `place` for the one in front."""
    moves = [Move(border.start, place, border.before), Move(place, border.middle, border.after)]
    return [move for move in moves if move.start < move.end]


def beginnings(stretch: Stretch) -> Found:
    """What a prompt opens with is the preamble's: the caller's beginning of sequence, or what the probes open with."""
    if not stretch.segments or stretch.segments[0].start:
        return
    end = next(
        (s.start for s in stretch.segments if not s.origin.literal and s.origin.message is not None),
        stretch.segments[-1].end,
    )
    size = _beginning(stretch.text[:end], stretch)
    if size:
        yield Move(0, size, PREAMBLE)


def _beginning(text: str, stretch: Stretch) -> int:
    """How many characters of `text`, which a prompt begins with, begin the sequence."""
    blank = len(text) - len(text.lstrip())
    known = stretch.profile.beginning
    if stretch.bos and text.startswith(stretch.bos, blank):
        return blank + len(stretch.bos)
    if known is None:
        return len(bos_of(text, ""))
    return blank + len(known) if known and begins_with(text[blank:], known) else 0


def first_headers(stretch: Stretch) -> Found:
    """In front of the first message the lead of its role begins it; a turn in front of that is the preamble's."""
    for border in borders_of(stretch):
        if border.before != PREAMBLE or border.after < 0:
            continue
        written, outside = border.gap + border.head, len(border.gap)
        place = _own_begin(border, stretch)
        if place > outside and not _is_turn(written[outside:place], "" if border.gap else border.tail, stretch):
            place = outside
        if place == outside and find_first(border.head.lstrip(), stretch.profile.openers) != 0:
            # A turn that is opened outside of loops, and not ended there, is the first message's.
            opened = find_last(border.gap, stretch.profile.openers)
            place = opened if opened >= 0 and not _ends_turn(border.gap, stretch) else place
        if place >= 0:
            yield from _to(border, border.start + len(border.tail) + place)
        # A marker that opens the generation prompt too begins no sequence.
        opens = find_first(border.gap.lstrip(), stretch.profile.openers) == 0
        if not place and not opens and stretch.profile.beginning is None and any(map(is_marker, chunks(border.gap))):
            yield Doubt((border.after, border.after))


def _own_begin(border: Border, stretch: Stretch) -> int:
    """Where in what is written in front of the first message its own begins; -1 if that does not show."""
    written = border.gap + border.head
    lead = stretch.profile.leads.get(stretch.roles[border.after], "")
    if not is_blank(lead):
        place = written.rfind(lead) if border.says_after else written.find(lead)
        if place >= 0:
            return place
    if len(border.opens) < len(border.head) and _ends_turn(border.gap + border.opens, stretch):
        return len(border.gap) + len(border.opens)
    if not border.says_after:
        return -1
    if is_blank(border.head) and _ends_turn(written, stretch):
        return len(written)
    place = find_last(written, stretch.profile.openers)
    return 0 if place < 0 and is_blank(border.head) else place


def _ends_turn(text: str, stretch: Stretch) -> bool:
    text = text.rstrip()
    return any(text.endswith(closer) for closer in stretch.profile.closers)


def _is_turn(text: str, before: str, stretch: Stretch) -> bool:
    """Whether a text is a turn of its own: it begins or ends as one does, or its markers stand nowhere else.

    Of the turn `before` may be split off, as what all prompts begin with.
    """
    openers = stretch.profile.openers
    if _ends_turn(text, stretch) or find_first(text.lstrip(), openers) == 0 or find_first(before, openers) >= 0:
        return True
    markers = {chunk for chunk in chunks(before + text) if is_marker(chunk)}
    return "\0" not in text and bool(markers) and not stretch.profile.later.intersection(markers)


def closing_heads(stretch: Stretch) -> Found:
    """What closes the message before is that one's, though the next one's iteration writes it."""
    for border in borders_of(stretch):
        if border.before < 0 or border.after < 0 or not border.opens:
            continue
        role = stretch.roles[border.before]
        ends = [*stretch.profile.heads, stretch.profile.ends.get(role, "")]
        if is_blank(border.tail + border.gap):
            ends += stretch.profile.closers
        size = brackets_in(border.opens)
        closing = max((end for end in ends if end and begins_with(border.opens[size:], end)), key=len, default="")
        if closing and (border.says_after or border.head[size:].strip() != closing.strip()):
            size += len(closing.rstrip())
            rest = border.head[size:]
            size += len(rest) - len(rest.lstrip())
        if size:
            yield from _to(border, border.middle + size)


def outside(stretch: Stretch) -> Found:
    """Text outside of loops in front of a message that has a lead of its own belongs to the one that it follows."""
    for border in borders_of(stretch):
        if not border.gap or (border.before < 0 and border.after < 0):
            continue
        if border.after < 0 or border.before == border.after:
            yield Move(border.start, border.middle, border.before)
        elif border.tools and "\0" in border.gap:
            yield from _tools_outside(border, stretch)
        elif border.before >= 0 and not is_blank(border.head):
            at = find_last(border.gap, stretch.profile.openers)
            if at >= 0 and find_first(border.head.lstrip(), stretch.profile.openers) != 0:
                yield from _to(border, border.start + len(border.tail) + at)
            else:
                yield Move(border.start, border.middle, border.before)


def _tools_outside(border: Border, stretch: Stretch) -> Found:
    """Tools between two messages stand in the first one's turn, unless they stand in front of later messages too."""
    text, bare = border.tail + border.gap, stretch.profile.bare
    at = border.gap.find(stretch.profile.block) if stretch.profile.block else -1
    if at >= 0:
        yield from _to(border, border.start + len(border.tail) + at)
    elif bare and text.startswith(bare) and not _ends_turn(text, stretch):
        yield from _to(border, border.start + len(bare))
    else:
        yield Move(border.start, border.middle, border.before)


def introductions(stretch: Stretch) -> Found:
    """A message without a lead of its own is introduced by what stands behind the end of the turn before."""
    for border in _leadless(stretch):
        text, skipped = _behind_lead(border, stretch)
        size = _closed(text, stretch.profile.closers)
        if size:
            yield from _to(border, border.start + skipped + size)


def _closed(text: str, closers: Iterable[str]) -> int:
    """How many characters `text` begins with that end turns, white space behind them included."""
    at = 0
    while True:
        rest = text[at:].lstrip()
        closing = max((closer for closer in closers if begins_with(rest, closer)), key=len, default="")
        if not closing:
            return len(text) - len(rest) if at else 0
        at = len(text) - len(rest) + len(closing)


def openings(stretch: Stretch) -> Found:
    """A message without a lead of its own is introduced by what messages of other roles begin with."""
    for border in _leadless(stretch, answers=True):
        text, skipped = _behind_lead(border, stretch)
        at = find_first(text, stretch.profile.openers)
        if at >= 0 and not border.tools:
            yield from _to(border, border.start + skipped + at)


def renders(stretch: Stretch) -> Found:
    """Text outside of loops is the one's in front as far as it stands there without the message behind it."""
    for border in _leadless(stretch):
        if border.gap:
            shown = stretch.shown_without(border.after)
            if shown is not None and border.middle - len(border.gap) <= shown <= border.middle:
                yield from _to(border, shown)


def names(stretch: Stretch) -> Found:
    """What names the next message's role introduces it, and what closes something by its form ends the one before."""
    for border in _leadless(stretch):
        text, skipped = _behind_lead(border, stretch)
        header = header_naming(text, stretch.roles[border.after])
        if header is not None:
            yield from _to(border, border.start + skipped + header)
        elif closes_by_name(text):
            yield from _to(border, border.middle)


def doubts(stretch: Stretch) -> Found:
    """Where nothing tells whose the text in front of a message without a lead is, neither message is exact."""
    for border in _leadless(stretch):
        if not is_blank(_behind_lead(border, stretch)[0]):
            yield Move(border.start, border.middle, border.before)
            yield Doubt((border.before, border.after))
    for border in borders_of(stretch):
        if border.gap:
            yield Move(border.middle - len(border.gap), border.middle, border.before)
            if 0 <= border.after != border.before >= 0 and not is_blank(border.gap):
                yield Doubt((border.before, border.after))


def _leadless(stretch: Stretch, *, answers: bool = False) -> list[Border]:
    """The borders in front of messages that have no lead of their own, and that no rule has decided yet.

    With `answers`, so are those in front of answers that begin with anything but a header.
    """
    decided = {segment.start for segment in stretch.segments if segment.rule in _DECIDE}
    return [
        border
        for border in borders_of(stretch)
        if border.before >= 0
        and border.after >= 0
        and (border.tail or border.gap)
        and _is_leadless(border, stretch, answers=answers)
        and border.start not in decided
    ]


def _is_leadless(border: Border, stretch: Stretch, *, answers: bool) -> bool:
    role = stretch.roles[border.after]
    if role in stretch.profile.leading and not border.gap:
        return False
    if answers and role == "assistant" and find_first(border.head, stretch.profile.openers) < 0:
        return True
    if border.says_after:
        return is_blank(border.head)
    # Of a message that says nothing all is head: it may be the end of its turn alone.
    return is_blank(border.head) or any(border.head.strip() == closer for closer in stretch.profile.closers)


def _behind_lead(border: Border, stretch: Stretch) -> tuple[str, int]:
    """What stands between two messages, without the lead of the first if that says nothing; and where that begins."""
    text = border.tail + border.gap
    if border.says_before:
        return text, 0
    lead = stretch.profile.leads.get(stretch.roles[border.before], "")
    at = text.find(lead) + len(lead) if not is_blank(lead) and lead in text else 0
    if not at:
        own = find_first(text, stretch.profile.openers)
        at = own + len(chunks(text[own:])[0]) if own >= 0 else 0
    return text[at:], at
