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
from itertools import groupby
from typing import NoReturn, final

MAX_CHARACTERS = 1 << 18
_MAX_RULES = 10_000  # llama.cpp follows chains of rules by recursion
_MAX_DEPTH = 100  # … and parentheses
_MAX_ELEMENTS = 200_000
_MAX_WAYS = 20_000
_MAX_REPETITIONS = 2000  # MAX_REPETITION_THRESHOLD of llama.cpp

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_CHARACTER = re.compile(r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]-])|[^\\]', re.DOTALL)
_TIMES = re.compile(r"\{S([0-9]{1,9})S(?:(,)S([0-9]{1,9})?S)?\}".replace("S", "[ \t]*"))
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n"}


class GrammarFault(Exception):
    """Why a grammar is refused, in words that name the line or the rule."""


_Alternatives = list[list[str | None]]
"""Sequences of items, of which one has to come: names of rules, and None for a character."""


@dataclass(frozen=True, slots=True)
class _Grammar:
    """Rules by name. Groups and repetitions are rules of their own, with names that no rule in the text can have.

    `endless` are the rules that repeat their only item without end, `times` says how often others do at most.
    """

    rules: dict[str, _Alternatives]
    endless: list[str]
    times: dict[str, int]


def check_grammar(text: str) -> None:
    """Raise `GrammarFault` unless llama.cpp can follow this grammar from its rule `root` on."""
    if len(text) > MAX_CHARACTERS:
        raise GrammarFault(f"longer than {MAX_CHARACTERS} characters")
    if "\0" in text or re.search("[\ud800-\udfff]", text):
        raise GrammarFault("holds a NUL or half of a surrogate pair")
    grammar = _Parser(text).parse()
    if "root" not in grammar.rules:
        raise GrammarFault("there is no rule named root")
    _check_repetitions(grammar)
    _check_beginnings(grammar)


def _check_repetitions(grammar: _Grammar) -> None:
    """Nothing with an empty alternative is repeated without end, which llama.cpp takes for left recursion."""
    for name in grammar.endless:
        repeated = grammar.rules[name][0][0]
        if repeated is not None and [] in grammar.rules[repeated]:
            raise GrammarFault(f"rule {_written(name)} repeats without end what may be empty")


def _check_beginnings(grammar: _Grammar) -> None:
    """No rule may begin with itself, nor in too many ways: llama.cpp keeps all of them before it has read anything."""
    rules = grammar.rules
    empty = _empty_rules(rules)
    firsts: dict[str, list[str | None]] = {name: [] for name in rules}
    for name, alternatives in rules.items():
        for sequence in alternatives:
            for item in sequence:
                firsts[name].append(item)
                if item not in empty:
                    break
    order = TopologicalSorter({name: [item for item in items if item] for name, items in firsts.items()})
    ways: dict[str, int] = {}
    try:
        for name in order.static_order():
            found = 1 + sum(1 if item is None else ways[item] for item in firsts[name])
            if any(item in empty for item in firsts[name]):
                found *= grammar.times.get(name, 1)
            if found > _MAX_WAYS:
                raise GrammarFault(f"rule {_written(name)} can begin in more than {_MAX_WAYS} ways")
            ways[name] = found
    except CycleError as error:
        cycle = " → ".join(name for name, _ in groupby(map(_written, reversed(error.args[1]))))
        raise GrammarFault(f"left recursion: a rule begins with itself ({cycle})") from None


def _empty_rules(rules: dict[str, _Alternatives]) -> set[str]:
    """The rules that may derive nothing, in time that grows with the grammar alone."""
    waiting: dict[str, list[tuple[str, list[str]]]] = {}
    empty: set[str] = set()
    found: list[str] = []
    for name, alternatives in rules.items():
        for sequence in alternatives:
            if None not in sequence:
                rest = [item for item in sequence if item is not None]
                if rest:
                    waiting.setdefault(rest[-1], []).append((name, rest))
                else:
                    found.append(name)
    while found:
        name = found.pop()
        if name in empty:
            continue
        empty.add(name)
        for owner, rest in waiting.pop(name, ()):
            while rest and rest[-1] in empty:
                rest.pop()
            if rest:
                waiting.setdefault(rest[-1], []).append((owner, rest))
            else:
                found.append(owner)
    return empty


def _written(name: str) -> str:
    """The rule of the text that a group or repetition stands in."""
    return name.split("(")[0]


@final
class _Parser:
    """Reads a grammar as llama.cpp does, and counts what llama.cpp will make of it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._elements = 0
        self._symbols = 0
        self._rule = ""
        self._rules: dict[str, _Alternatives] = {}
        self._endless: list[str] = []
        self._times: dict[str, int] = {}
        self._known: set[str] = set()
        self._used: dict[str, int] = {}

    def parse(self) -> _Grammar:
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            self._rule = self._name() or self._fail("a rule's name is missing")
            self._skip(_SPACE)
            if not self._take("::="):
                self._fail(f"::= is missing after {self._rule}")
            self._skip(_SPACE_AND_LINES)
            self._rules[self._rule] = self._alternatives(0)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._fail(f"cannot read {self._text[self._at]!r}")
            self._skip(_SPACE_AND_LINES)
        for name, at in self._used.items():
            if name not in self._rules:
                self._fail(f"there is no rule named {name}", at)
        return _Grammar(self._rules, self._endless, self._times)

    def _alternatives(self, depth: int) -> _Alternatives:
        if depth > _MAX_DEPTH:
            self._fail(f"parentheses are nested more than {_MAX_DEPTH} deep")
        alternatives = [self._sequence(depth)]
        while self._take("|"):
            self._skip(_SPACE_AND_LINES)
            alternatives.append(self._sequence(depth))
        return alternatives

    def _sequence(self, depth: int) -> list[str | None]:
        space = _SPACE_AND_LINES if depth else _SPACE
        items: list[str | None] = []
        size, made = 0, 1  # of the item before: its elements, and the rules it stands for
        while (character := self._text[self._at : self._at + 1]) and character not in "|)\r\n":
            if (times := self._repetition()) is not None:
                size, made = self._repeat(times, size, made)
                repeated = items.pop()
                if times[1] != 0:
                    name = self._add([[repeated]] if times[0] else [[repeated], []])
                    items.append(name)
                    self._times[name] = times[1] or times[0] + 1
                    if times[1] is None:
                        self._endless.append(name)
            else:
                symbols = self._symbols
                size, made = self._item(character, items, depth), 1
                if character == "(":
                    made = self._symbols - symbols
                self._count(size)
            self._skip(space)
        self._count(1)
        return items

    def _add(self, alternatives: _Alternatives) -> str:
        name = f"{self._rule}({len(self._rules)}"
        self._rules[name] = alternatives
        return name

    def _item(self, character: str, items: list[str | None], depth: int) -> int:
        """Read one item; how many elements llama.cpp keeps of it."""
        start = self._at
        self._at += 1
        if character == "(":
            self._symbols += 1
            self._skip(_SPACE_AND_LINES)
            items.append(self._add(self._alternatives(depth + 1)))
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
        items.append(name)
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

    def _repeat(self, times: tuple[int, int | None], size: int, made: int) -> tuple[int, int]:
        """The elements and the rules that an item of `size` elements and `made` rules stands for when repeated."""
        if not size:
            self._fail("nothing stands before a repetition")
        least, most = times
        total = most or least or 1
        if made * total > _MAX_REPETITIONS:
            self._fail(f"repetitions within repetitions: more than {_MAX_REPETITIONS}")
        optional = 1 if most is None else most - least
        self._symbols += optional
        self._count(least * size + optional * (size + 3))
        return least * size + (optional > 0), made * total

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
