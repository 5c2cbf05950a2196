"""Grammars in llama.cpp's notation (GBNF), checked before llama.cpp sees them.

llama.cpp reports a fault on standard error without a place, follows recursion that grows without end, and ends the
process where a token it allowed does not fit after all. What is refused here never gets that far. The rules of the
notation are those of `llama-grammar.cpp` in llama.cpp b11549.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, NoReturn, final

MAX_CHARACTERS = 1 << 18
_MAX_RULES = 10_000  # llama.cpp follows chains of rules by recursion
_MAX_DEPTH = 100  # … and parentheses
_MAX_ELEMENTS = 200_000
_MAX_REPETITIONS = 2000  # MAX_REPETITION_THRESHOLD of llama.cpp

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_CHARACTER = re.compile(r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]-])|[^\\]', re.DOTALL)
_TIMES = re.compile(r"\{S([0-9]{1,9})S(?:(,)S([0-9]{1,9})?S)?\}".replace("S", "[ \t]*"))
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n"}


class GrammarFault(Exception):
    """Why a grammar is refused, in words that name the line or the rule."""


class _Rule(NamedTuple):
    """What stands at the place of a reference, for the question what may come first."""

    name: str


@dataclass(slots=True)
class _Group:
    """Alternatives, each a sequence; the whole may be left out if `optional`, and come without end if `endless`."""

    alternatives: list[list[_Item]]
    optional: bool = False
    endless: bool = False


_Item = _Rule | _Group | None
"""None is a character."""


def check_grammar(text: str) -> None:
    """Raise `GrammarFault` unless llama.cpp can follow this grammar from its rule `root` on."""
    if len(text) > MAX_CHARACTERS:
        raise GrammarFault(f"longer than {MAX_CHARACTERS} characters")
    if "\0" in text or re.search("[\ud800-\udfff]", text):
        raise GrammarFault("holds a NUL or half of a surrogate pair")
    rules = _Parser(text).parse()
    if "root" not in rules:
        raise GrammarFault("there is no rule named root")
    for name, group in rules.items():
        if _repeats_nothing(group, rules):
            raise GrammarFault(f"rule {name} repeats without end what may be empty")
    _check_recursion(rules)


def _repeats_nothing(group: _Group, rules: dict[str, _Group]) -> bool:
    """Whether something with an empty alternative is repeated without end, which llama.cpp takes for left recursion."""
    inside = [item for alternative in group.alternatives for item in alternative]
    if group.endless and inside:
        (item,) = inside
        repeated = rules[item.name] if isinstance(item, _Rule) else item
        if repeated is not None and (repeated.optional or [] in repeated.alternatives):
            return True
    return any(isinstance(item, _Group) and _repeats_nothing(item, rules) for item in inside)


def _check_recursion(rules: dict[str, _Group]) -> None:
    """No rule may begin with itself: the parser would have to choose how often before it has read anything."""
    empty: set[str] = set()
    while found := {name for name, group in rules.items() if name not in empty and _may_be_empty(group, empty)}:
        empty |= found
    firsts = {name: _first_rules(group, empty) for name, group in rules.items()}
    try:
        TopologicalSorter(firsts).prepare()
    except CycleError as error:
        cycle = " → ".join(reversed(error.args[1]))
        raise GrammarFault(f"left recursion: a rule begins with itself ({cycle})") from None


def _may_be_empty(item: _Item, empty: set[str]) -> bool:
    if isinstance(item, _Rule):
        return item.name in empty
    if item is None:
        return False
    return item.optional or any(
        all(_may_be_empty(part, empty) for part in alternative) for alternative in item.alternatives
    )


def _first_rules(group: _Group, empty: set[str]) -> set[str]:
    """The rules that a group may begin with."""
    found: set[str] = set()
    for alternative in group.alternatives:
        for item in alternative:
            if isinstance(item, _Rule):
                found.add(item.name)
            elif item is not None:
                found |= _first_rules(item, empty)
            if not _may_be_empty(item, empty):
                break
    return found


@final
class _Parser:
    """Reads a grammar as llama.cpp does, and counts what llama.cpp will make of it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._elements = 0
        self._symbols = 0
        self._known: set[str] = set()
        self._used: dict[str, int] = {}

    def parse(self) -> dict[str, _Group]:
        rules: dict[str, _Group] = {}
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            name = self._name() or self._fail("a rule's name is missing")
            self._skip(_SPACE)
            if not self._take("::="):
                self._fail(f"::= is missing after {name}")
            self._skip(_SPACE_AND_LINES)
            rules[name] = self._alternatives(0)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._fail(f"cannot read {self._text[self._at]!r}")
            self._skip(_SPACE_AND_LINES)
        for name, at in self._used.items():
            if name not in rules:
                self._fail(f"there is no rule named {name}", at)
        return rules

    def _alternatives(self, depth: int) -> _Group:
        if depth > _MAX_DEPTH:
            self._fail(f"parentheses are nested more than {_MAX_DEPTH} deep")
        group = _Group([self._sequence(depth)])
        while self._take("|"):
            self._skip(_SPACE_AND_LINES)
            group.alternatives.append(self._sequence(depth))
        return group

    def _sequence(self, depth: int) -> list[_Item]:
        space = _SPACE_AND_LINES if depth else _SPACE
        items: list[_Item] = []
        size, made = 0, 1  # of the item before: its elements, and the rules it stands for
        while (character := self._text[self._at : self._at + 1]) and character not in "|)\r\n":
            if (times := self._repetition()) is not None:
                made = self._repeat(times, size, made)
                repeated = items.pop()
                if times[1] == 0:
                    size = 0
                else:
                    items.append(_Group([[repeated]], optional=not times[0], endless=times[1] is None))
            else:
                before, symbols = len(items), self._symbols
                size, made = self._item(character, items, depth), 1
                if character == "(":
                    made = self._symbols - symbols
                size = size if len(items) > before else 0
                self._count(size)
            self._skip(space)
        self._count(1)
        return items

    def _item(self, character: str, items: list[_Item], depth: int) -> int:
        """Read one item; how many elements llama.cpp keeps of it."""
        start = self._at
        self._at += 1
        if character == "(":
            self._symbols += 1
            self._skip(_SPACE_AND_LINES)
            items.append(self._alternatives(depth + 1))
            if not self._take(")"):
                self._fail("a parenthesis is not closed", start)
            return 1
        if character == '"':
            count = 0
            while not self._take('"'):
                self._character(start)
                count += 1
            items += [None] if count else []
            return count
        if character == "[":
            count = self._set(start)
            items += [None] if count else []
            return count
        if character == ".":
            items.append(None)
            return 1
        if character in "<!":
            self._fail("tokens (<…>) are not supported, only characters", start)
        self._at = start
        name = self._name() or self._fail(f"cannot read {character!r}")
        items.append(_Rule(name))
        self._used.setdefault(name, start)
        return 1

    def _set(self, start: int) -> int:
        self._take("^")
        count = 0
        while not self._take("]"):
            first = self._character(start)
            count += 1
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                count += 1
                if self._character(start) < first:
                    self._fail("a range ends before it begins", start)
        return count

    def _character(self, start: int) -> int:
        match = _CHARACTER.match(self._text, self._at)
        if match is None:
            ended = self._at == len(self._text)
            self._fail("not closed" if ended else "unknown escape", start if ended else self._at)
        self._at = match.end()
        escape = match[0][1:]
        if not escape:
            return ord(match[0])
        code = int(escape[1:], 16) if escape[0] in "xuU" else ord(_ESCAPED.get(escape, escape))
        if code > sys.maxunicode or 0xD800 <= code < 0xE000:
            self._fail(f"{match[0]} is no character")
        return code

    def _repetition(self) -> tuple[int, int | None] | None:
        """The least and the most times that the item before may come, if that is what stands here."""
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return times
        if not self._text.startswith("{", self._at):
            return None
        match = _TIMES.match(self._text, self._at)
        if match is None:
            self._fail("a repetition is {n}, {n,} or {n,m}")
        least = int(match[1])
        most = least if match[2] is None else None if match[3] is None else int(match[3])
        if most is not None and most < least:
            self._fail("a repetition ends before it begins")
        if max(least, most or 0) > _MAX_REPETITIONS:
            self._fail(f"more than {_MAX_REPETITIONS} repetitions")
        self._at = match.end()
        return least, most

    def _repeat(self, times: tuple[int, int | None], size: int, made: int) -> int:
        if not size:
            self._fail("nothing stands before a repetition")
        least, most = times
        total = most or least or 1
        if made * total > _MAX_REPETITIONS:
            self._fail(f"repetitions within repetitions: more than {_MAX_REPETITIONS}")
        optional = 1 if most is None else most - least
        self._symbols += optional
        self._count(least * size + optional * (size + 3))
        return made * total

    def _count(self, elements: int) -> None:
        self._elements += elements
        if self._elements > _MAX_ELEMENTS:
            self._fail(f"more than {_MAX_ELEMENTS} elements")

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        name = match[0]
        if name not in self._known:
            self._known.add(name)
            self._symbols += 1
        if len(self._known) > _MAX_RULES:
            self._fail(f"more than {_MAX_RULES} rules")
        return name

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        self._at = self._at if match is None else match.end()

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _fail(self, reason: str, at: int | None = None) -> NoReturn:
        line = self._text.count("\n", 0, self._at if at is None else at) + 1
        raise GrammarFault(f"line {line}: {reason}")
