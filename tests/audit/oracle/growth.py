"""Growth: text that the prompts of a conversation and of its continuation share keeps its owner."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import combinations

from tests.audit.case import Case
from tests.audit.corpus import Template
from tests.audit.kwargs import SPECIAL_TOKENS
from tests.audit.markers import CLOSER
from tests.audit.oracle.view import GENERATION, Fault, View, owner_name
from tests.audit.shapes import Conversation
from tests.audit.subject import parse_case, source_of
from tests.audit.vocabulary import WORD

from spanparse import Rendering, TemplateError


def check_growth(view: View) -> list[Fault]:
    """The first messages of the conversation, each number of them, beside more of them and beside all.

    Compared is what two prompts have in common from their beginning on. Where the shorter conversation's prompt is not
    all in the longer one's, that is only what stands up to the last word of a message's: whose a header is, and tools
    in it, depends on what it introduces, and that is not the same in both. What stands at the end of the shorter one's,
    behind all that its messages say, may introduce the message that comes next in the longer one: so does the
    generation prompt, and the header that some templates write without being asked. But the latter may not begin with
    what closes something.

    Nothing is said of characters that either rendering is unsure of, and of conversations in which a text stands twice
    or could be a part of another, since it may be another one that is shown. It is looked at with a generation prompt
    and no settings alone, since a rendering is made for each number of messages.
    """
    if not view.generation or view.case.kwargs.keys() != SPECIAL_TOKENS.keys() or not _are_told_apart(view):
        return []
    found = []
    for before, after in combinations([*_begun(view), view], 2):
        fault = _flip(before, after)
        if fault is not None:
            found.append(fault)
    return found


def _are_told_apart(view: View) -> bool:
    """Whether each text of the conversation that is not blank holds a word that no other does."""
    texts = [field.value for message in view.fields for field in message if not field.borrowed and field.value.strip()]
    return all(map(WORD.search, texts)) and len(set(texts)) == len(texts)


def _begun(view: View) -> Iterator[View]:
    """The renderings of the first messages that the template takes, in the order of their number."""
    count = len(view.case.messages)
    for index in [*view.case.probes[1:], count]:
        tools = view.case.conversation.tools
        case = Case(view.case.template, Conversation(view.case.messages[:index], tools), view.case.kwargs)
        answers = index < count and view.case.messages[index]["role"] == "assistant"
        for generation in (False, True) if answers else (False,):
            if case.text(generation) is None:
                continue
            try:
                yield View(case, generation, _parse(case, generation))
            except TemplateError:
                continue


def _parse(case: Case, generation: bool) -> Rendering:
    return parse_case(source_of(Template("growth", case.template, False)), case, generation)


def _flip(before: View, after: View) -> Fault | None:
    """The first character that changes hands between a prompt and one of as many messages or more."""
    count = len(before.case.messages)
    end = _shared(before, after.text)
    if before.owners[:end] == after.owners[:end]:
        return None
    said = _said(before, end)
    for place in range(end):
        was, now = before.owners[place], after.owners[place]
        if was == now:
            continue
        if place >= said and now >= count and (was == GENERATION or not CLOSER.match(before.text, place)):
            return None
        if all(view.is_sure_of(owner) for view in (before, after) for owner in (was, now)):
            what = repr(after.text[place : place + 40])
            prompt = " and a generation prompt" if before.generation else ""
            size, more = f"{count} messages{prompt}", f"{len(after.case.messages)}"
            detail = f"{what} at {place} is {owner_name(was)}'s in {size}, {owner_name(now)}'s in {more}"
            return Fault("growth", max(was, now, 0), detail)
    return None


def _shared(view: View, other: str) -> int:
    """How many characters a prompt has in common with another one; up to a message's word if that is not all of it."""
    text = view.text
    end = bisect_left(range(min(len(text), len(other))), True, key=lambda size: text[: size + 1] != other[: size + 1])
    return end if end == len(text) else _said(view, end)


def _said(view: View, end: int) -> int:
    """Where the last word of a message's in front of `end` ends; what is said of tools is passed over."""
    hits = WORD.finditer(view.text, 0, end)
    return max((hit.end() for hit in hits if hit[0] in view.homes and hit[0] not in view.tool_words), default=0)
