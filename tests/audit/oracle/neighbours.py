"""Neighbours: an answer's header is the answer's, and messages whose words stand in order own pieces in order."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from tests.audit.oracle.view import Fault, View
from tests.audit.vocabulary import WORD

# A word for the assistant with nothing but tags and punctuation behind it.
_ANSWER: Final = re.compile(
    r"(?<![a-z_])(?:assistant|assistente|bot|ai|response)(?![a-z_])(?:<[^<>\s]+>|[^\w<])*\Z", re.IGNORECASE
)


def check_neighbours(view: View) -> list[Fault]:
    """Text between a message's words and the next one's."""
    hits = _words(view)
    return [*_answers(view, hits), *_order(view, hits)]


def _words(view: View) -> list[tuple[int, int, int]]:
    """(start, end, message) of every word of one message only; those of tools are left out."""
    return [
        (hit.start(), hit.end(), next(iter(home)))
        for hit in WORD.finditer(view.text)
        if hit[0] not in view.tool_words and len(home := view.homes.get(hit[0], set())) == 1
    ]


def _answers(view: View, hits: list[tuple[int, int, int]]) -> list[Fault]:
    """What names the assistant between a question and its answer is not the question's."""
    found = []
    for (_, begin, asking), (end, _, answering) in pairwise(hits):
        roles = view.case.messages[asking]["role"], view.case.messages[answering]["role"]
        if roles != ("user", "assistant") or answering != asking + 1:
            continue
        named = _ANSWER.search(view.text, begin, end)
        said = [field.value for index in (asking, answering) for field in view.fields[index]]
        if named is None or any(named[0].strip() in value for value in said):
            continue
        if view.owners[named.start()] == asking:
            found.append(Fault("answer", asking, f"ends with {named[0]!r}, which introduces the answer"))
    return found


def _order(view: View, hits: list[tuple[int, int, int]]) -> list[Fault]:
    """Where each message shows a word and all words stand in order, none begins or goes on behind a later one."""
    order = [message for _, _, message in hits]
    if order != sorted(order) or len(set(order)) < len(view.case.messages):
        return []
    owners = [owner for _, _, owner in view.stretches if owner >= 0]
    return [
        Fault("order", after, f"goes on behind messages[{before}]")
        for before, after in pairwise(owners)
        if after < before
    ]
