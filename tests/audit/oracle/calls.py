"""Tool calls: each one's words lie in its own part, and its name and arguments are the children that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.audit.oracle.view import Fault, View
from tests.audit.vocabulary import WORD, words_in

from spanparse import Part


def check_calls(view: View) -> list[Fault]:
    """The words of a call that no other call of the message has."""
    found = []
    for index, message in enumerate(view.case.messages):
        calls = message.get("tool_calls") or []
        homes: dict[str, set[int]] = {}
        for number, call in enumerate(calls):
            for word in words_in(repr(call)):
                homes.setdefault(word, set()).add(number)
        for piece in view.rendering.messages[index].pieces:
            for hit in WORD.finditer(view.text, piece.start, piece.end):
                if len(homes.get(hit[0], ())) == 1 and not _is_elsewhere(view, hit.start()):
                    (number,) = homes[hit[0]]
                    found += _check_word(view, index, number, calls[number], hit.start(), hit[0])
        found += [fault for number, call in enumerate(calls) for fault in _check_name(view, index, number, call)]
    return found


def _is_elsewhere(view: View, start: int) -> bool:
    """Whether a word stands in a tools block, where the same names are written."""
    return any(part.start <= start < part.end for part in view.tools_parts)


def _check_word(view: View, index: int, number: int, call: Mapping[str, Any], start: int, word: str) -> list[Fault]:
    part = _part_at(view, index, start)
    if part is None or part.kind != "tool_call" or part.index not in (number, None):
        what = None if part is None else (part.kind, part.index)
        return [Fault("call", index, f"{word} of tool_calls[{number}] at {start} lies in {what}")]
    if word in words_in(repr(call["function"]["arguments"])):
        child = next((c for c in part.children if c.start <= start < c.end), None)
        if child is None or child.kind != "arguments":
            return [Fault("call", index, f"{word} of the arguments at {start} lies in {child}")]
    return []


def _check_name(view: View, index: int, number: int, call: Mapping[str, Any]) -> list[Fault]:
    found = []
    for part in view.rendering.messages[index].parts:
        if part.kind == "tool_call" and part.index == number:
            for child in part.children:
                text = view.text[child.start : child.end]
                if child.kind == "name" and text.strip('"') != call["function"]["name"]:
                    found.append(Fault("call", index, f"name of tool_calls[{number}] is {text!r}"))
    return found


def _part_at(view: View, index: int, offset: int) -> Part | None:
    parts = view.rendering.messages[index].parts
    return next((part for part in parts if part.start <= offset < part.end), None)
