"""What a parse leaves for the next one of the same conversation, grown by a turn or edited near its end.

Parts and notes of a message depend on the text and the origins of its pieces, on what it says, and on its place among
turns and messages. Where all of that is as it was, they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import itemgetter, ne
from typing import Any, Final, final

from spanparse.marks.marked import Runs
from spanparse.ownership.pieces import Ownership
from spanparse.ownership.turns import Turns
from spanparse.proof import common_prefix
from spanparse.spans import Barrier, MessageSpan, NoteKind, Piece, Preamble

Said = dict[str, Any]

_OFFSET: Final = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Marking:
    """A marked text and what it was made of: `runs` tile `text`, `said` is what `said_by` gave of the messages."""

    template: str
    text: str
    runs: Runs
    bos: str
    roles: Sequence[str]
    said: Sequence[Said]


@final
class Trail:
    """The inner results of a parse without doubts. Nothing in it may be changed."""

    __slots__ = (
        "barriers",
        "caller_text",
        "displaced",
        "marking",
        "messages",
        "ownership",
        "preamble",
        "system_end",
        "turns",
    )

    def __init__(
        self,
        marking: Marking,
        ownership: Ownership,
        turns: Turns,
        displaced: Mapping[int, NoteKind],
        messages: tuple[MessageSpan, ...],
        preamble: Preamble,
        barriers: tuple[Barrier, ...],
        caller_text: tuple[Piece, ...],
        system_end: int | None,
    ) -> None:
        self.marking = marking
        self.ownership = ownership
        self.turns = turns
        self.displaced = displaced
        self.messages = messages
        self.preamble = preamble
        self.barriers = barriers
        self.caller_text = caller_text
        self.system_end = system_end

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def said_by(message: dict[str, Any]) -> Said:
    """A copy of all that parts and notes look at in `message`, which the caller may change afterwards."""
    said = dict(message)
    for name, value in message.items():
        if type(value) is list:
            said[name] = _copied(value)
    return said


def _copied(values: list[Any]) -> list[Any]:
    copies: list[Any] = []
    for value in values:
        if type(value) is list:
            copies.append(_copied(value))
        elif type(value) is dict:
            copy = dict(value)
            function = value.get("function")
            if type(function) is dict:
                copy["function"] = dict(function)
            copies.append(copy)
        else:
            copies.append(value)
    return copies


def pieces_kept(trail: Trail, marking: Marking, ownership: Ownership) -> int:
    """How many of the first pieces are the same as in `trail`, and all that stands in them."""
    before = trail.marking
    if before.template != marking.template or before.bos != marking.bos:
        return 0
    old, new = trail.ownership.begins, ownership.begins
    same = _first(map(ne, old, new), min(len(old), len(new)))
    # A piece ends where the next one begins.
    return max(0, bisect_right(new, _common_end(before, marking), hi=same, key=_OFFSET) - 1)


def _common_end(a: Marking, b: Marking) -> int:
    """Where the leading runs end that two texts share, with their characters."""
    same = _first(map(ne, a.runs, b.runs), min(len(a.runs), len(b.runs)))
    end = b.runs[same - 1].end if same else 0
    return end if a.text[:end] == b.text[:end] else common_prefix(a.text, b.text)


def messages_changed(
    trail: Trail, marking: Marking, ownership: Ownership, turns: Turns, displaced: Mapping[int, NoteKind], kept: int
) -> set[int]:
    """The messages whose parts or notes may not be those in `trail`, from which the first `kept` pieces are."""
    old, said = trail.turns, marking.said
    changed = {*trail.ownership.order[kept:], *ownership.order[kept:], *range(len(trail.messages), len(said))}
    changed |= old.opens ^ turns.opens | old.closes ^ turns.closes | old.merged ^ turns.merged
    changed.update(index for index, _ in trail.displaced.items() ^ displaced.items())
    changed.update(compress(count(), map(ne, trail.marking.said, said)))
    return changed


def _first(differs: Iterable[bool], end: int) -> int:
    """The place of the first true one; `end` if there is none."""
    return next(compress(count(), differs), end)
