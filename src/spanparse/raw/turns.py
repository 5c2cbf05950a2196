"""Cutting a rendered prompt into turns at markers that nothing in it contradicts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from spanparse.raw.delimiters import Delimiters
from spanparse.spans import LEADING_ROLES, Note

_SPACE_BEHIND: Final = re.compile(r"[ \t]*\n*")
_HEADERLESS_AFTER: Final = ("user", "tool")


@dataclass(slots=True)
class Turn:
    """Characters [start, end) with content [inner, close), and notes on markers that the content may quote."""

    role: str
    start: int
    inner: int
    close: int = 0
    end: int = 0
    closed: bool = False
    notes: list[Note] = field(default_factory=list)
    # How far the content was searched for an end, and whether it holds one, while its border is not known yet.
    searched: int = 0
    holds_end: bool = False


def find_turns(text: str, delimiters: Delimiters, begin: int = 0) -> list[Turn]:
    """The turns from `begin` on, in text order; what stands before the first is a system text or belongs to none.

    A start marker counts only where the turn before it is closed, if its role always closes its turns, or may share it
    with the new role. Otherwise it is taken for a quotation, and noted.
    """
    turns: list[Turn] = []
    for found in delimiters.start.finditer(text, begin) if delimiters.start else ():
        assert found.lastindex is not None
        role = delimiters.roles[found.lastindex - 1]
        start = _in_front_of_tools(text, turns[-1].inner if turns else begin, found.start(), role, delimiters)
        if turns:
            if not _may_begin(text, turns[-1], role, start, delimiters):
                _note_quote(turns[-1], found[0])
                continue
            turns += _finish(text, turns[-1], start, delimiters)
        behind = _SPACE_BEHIND.match(text, found.end())
        turns.append(Turn(role, start, behind.end() if behind else found.end()))
    if turns:
        turns += _finish(text, turns[-1], len(text), delimiters)
        turns[:0] = _bare_system(text, begin, turns[0], delimiters)
    cut = [piece for turn in turns for piece in _cut_at_joints(text, turn, delimiters)]
    for turn in cut:
        _note_quotes(text, turn, delimiters)
    return cut


def _bare_system(text: str, begin: int, first: Turn, delimiters: Delimiters) -> list[Turn]:
    """The system text without a marker in front of the `first` turn, if there can be one and is."""
    said = text[begin : first.start].rstrip()
    if not said or not delimiters.bare_system or first.role == "system":
        return []
    return [Turn("system", begin, begin, begin + len(said), first.start)]


def _in_front_of_tools(text: str, begin: int, at: int, role: str, delimiters: Delimiters) -> int:
    """Where a message really begins whose marker is at `at`: tool definitions in front of it belong to it."""
    block = delimiters.block
    if block is None or role != block.role or not _ends_with(text, begin, at, (block.end,)):
        return at
    found = text.rfind(block.start, begin, at)
    return found if found >= 0 else at


def _ends_with(text: str, begin: int, end: int, suffixes: tuple[str, ...]) -> bool:
    """Whether text[begin:end] ends with one of `suffixes`, white space aside; copies nothing."""
    while end > begin and text[end - 1].isspace():
        end -= 1
    return text.endswith(suffixes, begin, end)


def _may_begin(text: str, turn: Turn, role: str, at: int, delimiters: Delimiters) -> bool:
    closers = delimiters.closers.get(turn.role, ())
    if not closers or role in delimiters.companions.get(turn.role, frozenset()):
        return True
    if _ends_with(text, turn.inner, at, closers):
        return True
    if not _goes_on(turn.role, delimiters) or not _holds_end(text, turn, at, closers):
        return False
    answers = delimiters.closers.get("assistant", ())
    return not answers or _ends_with(text, turn.inner, at, answers)


def _holds_end(text: str, turn: Turn, at: int, closers: tuple[str, ...]) -> bool:
    """Whether an end stands between the header and `at`; what was searched before is not searched again."""
    begin = max(turn.inner, turn.searched - max(map(len, closers)))
    turn.holds_end = turn.holds_end or any(text.find(end, begin, at) >= 0 for end in closers)
    turn.searched = at
    return turn.holds_end


def _goes_on(role: str, delimiters: Delimiters) -> bool:
    """Whether an assistant may go on behind the end of a message of `role` without a marker of its own."""
    if role not in _HEADERLESS_AFTER:
        return False
    return delimiters.headerless or "assistant" in delimiters.companions.get(role, frozenset())


def _follower(role: str, delimiters: Delimiters) -> str | None:
    """Whose message may go on behind the end of one of `role` without a marker of its own."""
    if _goes_on(role, delimiters):
        return "assistant"
    return "user" if role in LEADING_ROLES and "user" in delimiters.companions.get(role, frozenset()) else None


def _finish(text: str, turn: Turn, limit: int, delimiters: Delimiters) -> Iterator[Turn]:
    """Ends `turn` at `limit`, or behind its end marker if another message goes on there: then yields its turns."""
    closers, follower = delimiters.closers.get(turn.role, ()), _follower(turn.role, delimiters)
    if follower is not None and closers:
        places = ((text.find(end, turn.inner, limit), -len(end)) for end in closers)
        at, size = min((place for place in places if place[0] >= 0), default=(limit, 0))
        first = at - size
        if text[first:limit].strip():
            _close(text, turn, first, delimiters)
            space = _SPACE_BEHIND.match(text, first, limit)
            after = Turn(follower, first, space.end() if space else first)
            yield after
            yield from _finish(text, after, limit, delimiters)
            return
    _close(text, turn, limit, delimiters)


def _close(text: str, turn: Turn, limit: int, delimiters: Delimiters) -> None:
    # White space at the end is mostly the template's, and so it is in front of an end marker.
    turn.end = limit
    body = text[turn.inner : limit].rstrip()
    turn.close = turn.inner + len(body)
    for end in (*delimiters.ends.get(turn.role, ()), *delimiters.closers.get(turn.role, ())):
        if body.endswith(end):
            turn.close = turn.inner + len(body.removesuffix(end).rstrip())
            turn.closed = True
            return


def _cut_at_joints(text: str, turn: Turn, delimiters: Delimiters) -> Iterator[Turn]:
    """`turn`, or the messages that share it."""
    joint = delimiters.joints.get(turn.role)
    for found in joint.finditer(text, turn.inner, turn.close) if joint else ():
        yield Turn(turn.role, turn.start, turn.inner, found.start(), found.end(1), True, turn.notes)
        turn = Turn(turn.role, found.end(1), found.end(), turn.close, turn.end, turn.closed)
    yield turn


def _note_quotes(text: str, turn: Turn, delimiters: Delimiters) -> None:
    """Notes on ends of any role in the middle of the content, and on stems of starts that no known role follows."""
    ends = (end for closers in delimiters.closers.values() for end in closers)
    for marker in dict.fromkeys((*ends, *delimiters.stems)):
        own = turn.role == "assistant" and marker == delimiters.call_end
        if not own and text.find(marker, turn.inner, turn.close) >= 0:
            _note_quote(turn, marker)


def _note_quote(turn: Turn, marker: str) -> None:
    if not any(note.field is not None and marker in note.field for note in turn.notes):
        turn.notes.append(Note("quotes-marker", marker))
