"""The markers of the published formats: a turn with the words of one message only is that message's, all of it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from tests.audit.markers import CLOSER, Markers, format_of
from tests.audit.oracle.view import PREAMBLE, Fault, View, owner_name
from tests.audit.vocabulary import WORD

_END_OF_TEXT: Final = re.compile(r"<｜end▁of▁sentence｜>|</s>")
_MARKUP: Final = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]")


def check_turns(view: View) -> list[Fault]:
    """From a start marker to the next one, white space and beginning-of-sequence text at the end excepted.

    Conversations that quote the marker are passed over.
    """
    markers = format_of(view.text)
    quoted = markers is not None and any(markers.start.search(f.value) for message in view.fields for f in message)
    if markers is None or quoted:
        return []
    generated = view.rendering.generation_prompt
    end = generated.start if generated else len(view.text)
    starts = [hit.start() for hit in markers.start.finditer(view.text, 0, end)]
    # Some formats put the same markers behind the texts.
    if starts and any(view.case.messages[i]["role"] in ("user", "assistant") for i in _messages_in(view, 0, starts[0])):
        return []
    found = [
        Fault("caller-text", None, f"the start marker at {start} is said to be the caller's")
        for start in starts
        if any(piece.start <= start < piece.end for piece in view.rendering.caller_text)
    ]
    for begin, after in pairwise([*starts, end]):
        inside = _messages_in(view, begin, after)
        if len(inside) == 1 and not _is_closed_first(view, markers, begin, after):
            found += _check_turn(view, markers, next(iter(inside)), begin, after)
    return found + _check_default_turns(view, starts, end) + _check_tools(view, markers, starts)


def _check_default_turns(view: View, starts: list[int], end: int) -> list[Fault]:
    """Turns that say nothing of any message in front of the first that does: no message owns their start.

    A message whose words do not show may have one of them.
    """
    if len(view.visible) < len(view.case.messages):
        return []
    found = []
    for begin, after in pairwise([*starts, end]):
        if WORD.search(view.text, begin, after):
            break
        owner = view.owners[begin]
        # A header may be made of two markers, and an image shown in turns of its own.
        says = view.text[begin:after].strip() and not view.text[:after].endswith("|>")
        if says and owner >= 0 and not _has_media(view.case.messages[owner]):
            found.append(Fault("default", owner, f"owns the turn [{begin}, {after}), which says nothing"))
    return found


def _has_media(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any("text" not in part for part in content)


def _check_tools(view: View, markers: Markers, starts: list[int]) -> list[Fault]:
    """A tools block in a turn that is open where it begins is its who owns the turn's start."""
    found = []
    for part in view.tools_parts:
        start = max((start for start in starts if start < part.start), default=None)
        if start is None or (markers.end or CLOSER).search(view.text, start, part.start):
            continue
        if view.owners[start] != view.owners[part.start]:
            owner, header = owner_name(view.owners[part.start]), owner_name(view.owners[start])
            found.append(Fault("tools", None, f"at {part.start} are {owner}'s, their turn at {start} {header}'s"))
    return found


def _messages_in(view: View, begin: int, end: int) -> set[int]:
    """The messages whose words stand in a turn; two or more if a word could be of several."""
    inside: set[int] = set()
    for hit in WORD.finditer(view.text, begin, end):
        if hit[0] not in view.tool_words:
            inside |= view.homes.get(hit[0], set())
    return inside


def _is_closed_first(view: View, markers: Markers, begin: int, after: int) -> bool:
    """Whether the turn ends in front of its first word, which is then of a message that has no start marker."""
    word = WORD.search(view.text, begin, after)
    return word is not None and bool((markers.end or _END_OF_TEXT).search(view.text, begin, word.start()))


def _check_turn(view: View, markers: Markers, index: int, begin: int, after: int) -> list[Fault]:
    end = begin + len(_without_next_beginning(view.text[begin:after]))
    # A message without a word of its own may stand in a turn unseen.
    unseen = set(range(len(view.case.messages))) - view.visible
    # An empty text whose turn stands outside all loops cannot be told from a default one.
    allowed = {index, *unseen, *([PREAMBLE] if any(place < index for place in unseen) else [])}
    place = begin + _default_text(view, begin)
    while place < end and view.owners[place] in allowed:
        place += 1
    if place < end and not _begins_next(view, markers, index, place, after):
        owner, what = owner_name(view.owners[place]), view.text[place : place + 40]
        return [Fault("turn", index, f"of its turn [{begin}, {after}), {what!r} is {owner}'s")]
    if unseen or markers.end is None:
        return []
    return [*_check_header(view, index, begin), *_check_trailer(view, markers, index, begin, place)]


def _without_next_beginning(text: str) -> str:
    return text.rstrip().removesuffix("<|begin_of_text|>").removesuffix("<s>").rstrip()


def _default_text(view: View, begin: int) -> int:
    """The length of a turn's beginning that no message owns, if the template wrote words of its own in it."""
    end = view.rendering.preamble.end
    own = _MARKUP.sub("", view.text[begin:end]) if begin < end else ""
    return end - begin if len(own.split()) > 2 else 0


def _begins_next(view: View, markers: Markers, index: int, place: int, after: int) -> bool:
    """Whether what stands at a turn's end may be the beginning of the message behind it.

    The turn is closed before it, or every message of the next one's role begins so. A system text that stands in a
    later turn begins it, and so do the tools in front of that.
    """
    owner, text = view.owners[place], view.text[place:after]
    goes_on = 0 <= owner < index and view.owners[after : after + 1] == [owner]
    if not (owner > index or goes_on) or owner != view.owners[after - 1]:
        return False
    if markers.end is not None and markers.end.search(text):
        return False
    before = view.text[:place].rstrip()
    closed = any(hit.end() == len(before) for hit in CLOSER.finditer(before, max(0, place - 80)))
    return closed or view.always_begins(owner, text)


def _check_header(view: View, index: int, begin: int) -> list[Fault]:
    """The first part of the message, if the turn is its first."""
    first = next((part for part in view.rendering.messages[index].parts), None)
    # A Harmony call has a turn of its own, header and all.
    if first is None or not first.start <= begin < first.end or first.kind in ("header", "tool_call"):
        return []
    return [Fault("header", index, f"its turn starts at {begin} in {first.kind}")]


def _check_trailer(view: View, markers: Markers, index: int, begin: int, end: int) -> list[Fault]:
    """The last part of the message, if the turn is its last and ends with the marker."""
    assert markers.end is not None
    last = next((part for part in reversed(view.rendering.messages[index].parts)), None)
    closing = list(markers.end.finditer(view.text, begin, end))
    if last is None or not closing or not last.start <= closing[-1].start() < last.end:
        return []
    behind = view.text[closing[-1].end() : last.end]
    if last.kind in ("trailer", "tool_call") or behind.strip():
        return []
    return [Fault("trailer", index, f"its turn ends with {closing[-1][0]} in {last.kind}")]
