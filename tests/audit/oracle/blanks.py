"""Messages that say nothing: what the template writes around an empty text is whose it is around a text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.audit.case import Case, Message
from tests.audit.corpus import Template
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.oracle.view import Fault, View, owner_name
from tests.audit.shapes import Conversation
from tests.audit.subject import parse_case, source_of

from spanparse import TemplateError


class _Place(NamedTuple):
    """Whose a character is, and in a part of which kind it stands."""

    owner: int
    kind: str | None


def check_blanks(view: View) -> list[Fault]:
    """The conversation with some of its texts empty, where that takes nothing but the texts out of the prompt.

    Where the prompt is also that of fewer messages, it cannot be told whether the template shows the empty ones. It is
    looked at with a generation prompt and no settings alone, since two renderings are compared for each choice.
    """
    if not view.generation or view.case.kwargs.keys() != SPECIAL_TOKENS.keys():
        return []
    places = _places(view)
    return [fault for blank in _choices(view) for fault in _check(view, places, blank)]


def _choices(view: View) -> list[tuple[int, ...]]:
    """The messages to say nothing: the first and the last of each role, all of a role, all."""
    roles: dict[str, list[int]] = {}
    for index in view.case.probes:
        content = view.case.messages[index].get("content")
        # White space at a text's ends may be the template's.
        if isinstance(content, str) and content and content == content.strip():
            roles.setdefault(view.case.messages[index]["role"], []).append(index)
    choices = [choice for places in roles.values() for choice in (places[:1], places[-1:], places)]
    choices.append(sorted(place for places in roles.values() for place in places))
    return [choice for choice in dict.fromkeys(map(tuple, choices)) if choice]


def _check(view: View, before: Sequence[_Place], blank: Sequence[int]) -> list[Fault]:
    kept = _without(view.text, [view.case.messages[index]["content"] for index in blank])
    if kept is None:
        return []
    messages = [_emptied(m) if index in blank else m for index, m in enumerate(view.case.messages)]
    case = Case(view.case.template, Conversation(messages, view.case.conversation.tools), view.case.kwargs)
    text = "".join(view.text[place] for place in kept)
    if case.text(True) != text:
        return []
    try:
        other = View(case, True, parse_case(source_of(Template("blank", case.template, False)), case, True))
    except TemplateError:
        return [Fault("blank", blank[0], "is refused if it says nothing")]
    after = _places(other)
    unlike = [n for n, place in enumerate(kept) if before[place] != after[n]]
    differs = next(
        (n for n in unlike if not _may_differ(view, other, blank, before[kept[n]], after[n], white=text[n].isspace())),
        None,
    )
    if differs is None or _tells_nothing(case, text, blank):
        return []
    was, now = before[kept[differs]], after[differs]
    what = f"{text[differs : differs + 40]!r} is {owner_name(was.owner)}'s {was.kind}"
    detail = f"if {list(blank)} say nothing, {what} no more, but {owner_name(now.owner)}'s {now.kind}"
    return [Fault("blank", max(was.owner, now.owner, 0), detail)]


def _may_differ(view: View, other: View, blank: Sequence[int], was: _Place, now: _Place, *, white: bool) -> bool:
    """Whether a character may be what it was not.

    Of a message that shows other things than its text, what stood between them and it is now in front of all, or behind
    all. Of one that shows nothing any more, the neighbours may begin or end the turn in its place. White space may
    stand on either side of where an empty text would stand. Where a message went on with its text behind a later
    one's, it need not go on any more.
    """
    vague = {m.index for v in (view, other) for m in v.rendering.messages if not m.exact}
    if was.owner in vague or now.owner in vague:
        return True
    if was.owner != now.owner:
        return was.owner in blank and _went_on(view, was.owner) and not _went_on(other, was.owner)
    if was.owner in blank and was.kind == "delimiter" and now.kind in ("header", "trailer"):
        return True
    if white and {was.kind, now.kind} == {"header", "trailer"}:
        return True
    pieces = [len(v.rendering.messages[index].pieces) for v in (view, other) for index in blank]
    return pieces[: len(blank)] != pieces[len(blank) :]


def _went_on(view: View, index: int) -> bool:
    """Whether a message has more than one piece."""
    return len(view.rendering.messages[index].pieces) > 1


def _tells_nothing(case: Case, text: str, blank: Sequence[int]) -> bool:
    """Whether `text` is also the prompt of fewer messages: of all that say something, or of all but one."""
    fewer = [[message for index, message in enumerate(case.messages) if index not in blank]]
    fewer += [[*case.messages[:index], *case.messages[index + 1 :]] for index in blank]
    return any(messages and case.text_of(messages, True) == text for messages in fewer)


def _without(text: str, contents: Sequence[str]) -> list[int] | None:
    """The places of `text` that are not those of `contents`; None unless each of these stands there once."""
    if any(text.count(content) != 1 for content in contents):
        return None
    taken = sorted((text.index(content), text.index(content) + len(content)) for content in contents)
    borders = [(0, 0), *taken, (len(text), len(text))]
    return [place for (_, end), (start, _) in pairwise(borders) for place in range(end, start)]


def _emptied(message: Message) -> Message:
    return {**message, "content": ""}


def _places(view: View) -> list[_Place]:
    kinds: list[str | None] = [None] * len(view.text)
    for message in view.rendering.messages:
        for part in message.parts:
            kinds[part.start : part.end] = [part.kind] * (part.end - part.start)
    return list(map(_Place, view.owners, kinds))
