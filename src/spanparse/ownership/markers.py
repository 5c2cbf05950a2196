"""Markers by which templates show where turns begin and end, read off the text that they write themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from spanparse.marks.marked import Runs
from spanparse.ownership.segments import Segment

CONTROL = re.compile(
    r"<\|[^<>|\s]{1,40}\|?>|<[^<>|\s/]{1,40}\|>|<[a-z_]*(?:start|turn|bos|eos)[a-z_]*>|<｜[^｜]{1,40}｜>|\[[A-Z_]{2,30}\]"
    r"|\[\|[^\[\]|\s]{1,40}\|\]"
)
_CLOSING = re.compile(CONTROL.pattern + r"|</[^<>\s]{1,40}>|<</[A-Z]{2,30}>>|\[/[A-Z_]{2,30}\]")
SPACED_CLOSING = re.compile(rf"\s*({_CLOSING.pattern})")
_OPENING = re.compile(CONTROL.pattern + r"|<[^<>\s/]{1,40}>|<<[A-Z]{2,30}>>")
_END = re.compile(r"(?<![a-z])end(?![a-z])|end_?of|eot(?![a-z])|eos(?![a-z])|eom(?![a-z])|/", re.IGNORECASE)
_BEGIN = re.compile(r"begin|start|bos|<s>", re.IGNORECASE)
RESULT_ROLES: Final = frozenset({"tool", "ipython", "function", "tool_results", "tool_response", "observation"})
"""What the role of a tool's result is called: by clients and by published templates."""

_NAMES = {"assistant": ("assistant", "model", "bot"), "user": ("user", "human"), "tool": ("tool", "observation")}
# Words that stand for a role in a header of plain words: `### Response:`, `<AI>`.
_HEADER_NAMES = {
    "assistant": (*_NAMES["assistant"], "assistente", "ai", "response"),
    "user": (*_NAMES["user"], "instruction"),
}
_TAG = r"<[^<>\s]{1,40}>"
ROLES: Final = ("assistant", "user", "system", "developer", "tool", "model", "human", "bot")
_UNNAMING = frozenset({"im", "of", "id", "turn", "token", "sentence", "text", "prompt", "s"})
ROLE_WORD = re.compile(rf"(?:{'|'.join(ROLES)})(?![A-Za-z_])", re.IGNORECASE)
# A header that begins a line and names the role in front of its marker: `user<|role_sep|>`.
_ROLE_FIRST = re.compile(rf"(?m)^{ROLE_WORD.pattern}(?:{CONTROL.pattern})")
# A marker that names thought (`<think>`, `<|START_THINKING|>`), or has such a name behind it (`<|channel>thought`).
_THOUGHT = re.compile(
    r"<[^<>\s/]*(?:think|thought|reason)[^<>\s]*>|\[THINK\]|<[^<>\s]+>(?:thought|analysis)\b", re.IGNORECASE
)
# What stands inside a turn: the opening of reasoning or of a call.
_INNER = re.compile(rf"{_THOUGHT.pattern}|<[^<>\s]*call[^<>\s]*>|\[[A-Z_]*CALL[A-Z_]*\]", re.IGNORECASE)
# Closing brackets that do not begin a word or marker of another kind (`]~b]user`).
_BRACKETS = re.compile(r"(?:\s*[\])}])+(?=\s|[<\[]|\Z)")
_NAMES_THOUGHT = re.compile(r"think|thought|reason", re.IGNORECASE)
_SEQUENCE = re.compile(r"begin[_▁]?of[_▁]?(?:text|s)|bos|start_?of_?text|sop|gmask", re.IGNORECASE)


_SHORT = 200


def literals_of(text: str, runs: Runs) -> set[str]:
    """The texts that a template writes itself, what it writes for tools aside."""
    return {
        text[start:end]
        for start, end, (path, literal, message), _ in runs
        if literal and (message is not None or not path or path[0] != "tools")
    }


def leads_of(text: str, runs: Runs, owners: Sequence[int | None], changes: Sequence[int]) -> set[str]:
    """The template's texts that messages begin with; `runs` have `owners`, and from `changes` on other ones."""
    leads = set()
    seen = set()
    for place in (0, *changes) if owners else ():
        owner = owners[place]
        if owner is None or owner < 0 or owner in seen:
            continue
        seen.add(owner)
        begin = end = runs[place][0]
        while place < len(runs) and runs[place][2][1] and owners[place] == owner:
            end = runs[place][1]
            place += 1
        leads.add(text[begin:end])
    return leads


def learn_starts(text: str, literals: Iterable[str], leads: Iterable[str]) -> frozenset[str]:
    """The markers that a template writes in front of messages; empty where it writes none.

    That is the first marker that no message's lead ends a turn with, every marker that is named after a role or has a
    role's name right behind it (or in front of it, at the beginning of a line), and those that stand in one text with
    it, right in front.
    """
    starts = {start for lead in leads for start in _first_start(lead)}
    role_first = {found[0] for literal in literals for found in _ROLE_FIRST.finditer(literal)}
    return frozenset(starts | _role_markers(literals) | {start for start in role_first if f"\n{start}" in text})


# The leads of a conversation's messages are few.
@lru_cache(maxsize=256)
def _first_start(lead: str) -> frozenset[str]:
    end = brackets_end(lead, 0, len(lead))
    within = end > 0
    lead = lead[end:].strip()
    while (closing := _CLOSING.match(lead)) and is_closing(closing[0]):
        within = within and not ends_turn(closing[0])
        lead = lead[closing.end() :].lstrip()
    inner = _INNER.search(lead)
    lead = lead[: inner.start()].rstrip() if inner else lead
    marker = CONTROL.match(lead)
    if within or "call" in (marker[0] if marker else lead).lower():
        return frozenset()  # it goes on in a turn, or opens a tool call
    if marker is None:
        return frozenset({lead} if len(lead) > 2 else ())
    opening = next((found[0] for found in CONTROL.finditer(lead) if not is_closing(found[0])), None)
    return frozenset(() if opening is None else (opening,))


def _role_markers(literals: Iterable[str]) -> set[str]:
    markers: set[str] = set()
    for literal in literals:
        joined: set[str] = set()
        end = 0
        for found in CONTROL.finditer(literal):
            marker = found[0]
            if found.start() > end or is_closing(marker) or _SEQUENCE.search(marker):
                joined.clear()
            end = found.end()
            if is_closing(marker):
                continue
            has_role = bool(ROLE_WORD.match(literal, end))
            if has_role or not _SEQUENCE.search(marker):
                joined.add(marker)
            if has_role or names_role(marker, *ROLES):
                markers |= joined
    return markers


@lru_cache(maxsize=64)
def markers_of(starts: frozenset[str]) -> tuple[str, ...]:
    """Those of `starts` that are markers by their form, not words or tags that messages happen to begin with."""
    return tuple(start for start in starts if CONTROL.match(start))


@lru_cache(maxsize=16_384)
def names_role(marker: str, *roles: str) -> bool:
    """Whether a marker ends with the name of one of `roles`, fillers aside: `<|hy_User|>`, `<|SYSTEM_TOKEN|>`."""
    words = _words(marker)
    return bool(words) and words[-1].endswith(tuple(name for role in roles for name in _NAMES.get(role, (role,))))


@lru_cache(maxsize=1024)
def is_closing(marker: str) -> bool:
    """Whether a marker ends something, as far as its name shows: `<|im_end|>`, `[/INST]`, Gemma 4's `<turn|>`."""
    return bool(_END.search(marker)) or (marker.endswith("|>") and not marker.startswith("<|"))


def last_start(text: str, gap: Sequence[Segment], starts: frozenset[str]) -> int | None:
    """Offset of the last start marker in the template's text of `gap`."""
    for segment in reversed(gap):
        if segment.is_tools:
            continue
        found = max((str.rfind(text, start, segment.start, segment.end) for start in starts), default=-1)
        if found >= 0:
            return chain_begin(text, gap[0].start, found, starts)
    return None


def chain_begin(text: str, begin: int, border: int, starts: frozenset[str]) -> int:
    """Where the first start marker of the run of markers that ends at `border` begins, not before `begin`."""
    first = at = border
    while (at := max(text.rfind("<", begin, at), text.rfind("[", begin, at))) >= 0:
        marker = CONTROL.fullmatch(text, at, border)
        if marker is None or is_closing(marker[0]):
            break
        border = at
        first = at if marker[0] in starts else first
    return first


def chain_end(text: str, begin: int, end: int, role: str) -> int:
    """Where the run of markers that begins at `begin` ends, not behind `end`, nor behind another that names `role`."""
    at = begin
    while (found := CONTROL.match(text, at, end)) and not (at > begin and names_role(found[0], role)):
        at = found.end()
    return at


def ends_turn(text: str) -> bool:
    """Whether a text ends with a marker that ends a turn and nothing else, white space aside: `<|im_end|>`."""
    text = text.rstrip()
    closing = next((found[0] for found in _CLOSING.finditer(text) if found.end() == len(text)), "")
    return is_closing(closing) and not _name(closing)


def brackets_end(text: str, start: int, end: int) -> int:
    """Where the closing brackets that [start, end) begins with end, `start` if there are none."""
    found = _BRACKETS.match(text, start, end)
    return found.end() if found else start


def closers_end(text: str, begin: int, end: int) -> int:
    """Where the markers that close something end which stand at `begin`, with the white space behind; else `begin`."""
    at = begin
    while (found := SPACED_CLOSING.match(text, at, end)) and is_closing(found[1]):
        at = found.end()
    return at if at == begin else end - len(text[at:end].lstrip())


def ending_run(text: str, start: int, end: int) -> int:
    """Where the last markers in [start, end) begin that end a turn, white space between them aside; `end` without any.

    So do those that close what is opened right in front of them (`[INST][/INST]`), except of reasoning.
    """
    begin = end
    for found in reversed([*_CLOSING.finditer(text, start, end)]):
        ends = is_closing(found[0]) and not _closes_something(text, start, found)
        if begin < end and (not ends or text[found.end() : begin].strip()):
            break
        if ends:
            begin = found.start()
    return begin


def _closes_something(text: str, start: int, closing: re.Match[str]) -> bool:
    """Whether a closing marker closes anything but a turn, or nothing, that is opened in [start, its own start)."""
    name, before = _name(closing[0]), text[start : closing.start()].rstrip()
    if not name:
        return False
    opening = next((found[0] for found in _OPENING.finditer(before) if found.end() == len(before)), "")
    return is_closing(opening) or _name(opening) != name or bool(_THOUGHT.match(opening))


def named_header(text: str, begin: int, end: int, role: str) -> int | None:
    """Where the header begins that names `role` and closes [begin, end), None if there is none.

    Nothing but markers and punctuation stands around the name: `<extra_id_1>Assistant`, `|Bot|: `, `### Response:`.
    White space in front is not the header's, nor are closing markers.
    """
    found = _header_naming(role).search(text, begin, end)
    if found is None:
        return None
    border = found.start()
    while (closing := _CLOSING.match(text, border, end)) and is_closing(closing[0]):
        border = closing.end()
    return border + len(text[border:end]) - len(text[border:end].lstrip())


def closing_header(text: str, begin: int, role: str) -> int | None:
    """Where a header that a text closes with begins, from `begin` on, None if there is none.

    It names `role`, or stands behind the end of a turn.
    """
    return (_short_header if len(text) <= _SHORT else _closing_header)(text, begin, role)


def _closing_header(text: str, begin: int, role: str) -> int | None:
    header = named_header(text, begin, len(text), role)
    if header is None:
        closed = turns_end(text, begin, len(text), "")
        header = closed if closed and has_words(text[closed:]) else None
    return header


_short_header = lru_cache(maxsize=1024)(_closing_header)


@lru_cache(maxsize=16)
def _header_naming(role: str) -> re.Pattern[str]:
    names = "|".join(map(re.escape, _HEADER_NAMES.get(role, (role,))))
    around = rf"(?:{_TAG}|[^\w<>])*"
    tagged = rf"<(?:[^\w<>]|_)*(?:{names})(?:[^\w<>]|_)*>"
    plain = rf"(?:{_TAG}|[#*|\[({{]+ ?)*(?<![\w<])(?:{names})(?![\w>])"
    return re.compile(rf"(?:{tagged}|{plain}){around}\Z", re.IGNORECASE)


def turns_end(text: str, start: int, end: int, trailer: str) -> int:
    """Where the last marker in [start, end) ends that closes a turn, 0 if there is none.

    It does so by its name, or `trailer` begins with it.
    """
    own = CONTROL.match(trailer.lstrip())
    ends = [
        found.end()
        for found in _CLOSING.finditer(text, start, end)
        if (own and found[0] == own[0]) or (is_closing(found[0]) and not _name(found[0]))
    ]
    return ends[-1] if ends else 0


def has_marker(text: str, start: int, end: int) -> bool:
    """Whether there is a marker in [start, end), of whatever kind."""
    return _CLOSING.search(text, start, end) is not None


def has_words(text: str) -> bool:
    """Whether a text says anything beside markers and names of roles."""
    return _short_has_words(text) if len(text) <= _SHORT else _has_words(text)


def _has_words(text: str) -> bool:
    return bool(ROLE_WORD.sub("", _CLOSING.sub("", text)).strip())


# A template writes few texts between messages.
_short_has_words = lru_cache(maxsize=1024)(_has_words)


def is_turn(text: str) -> bool:
    """Whether a text is a turn: ended by a marker, or words behind a start marker that names a role."""
    if ends_turn(text):
        return True
    starts = _role_markers({text})
    return has_words(text) and any(text.lstrip().startswith(start) for start in starts)


def thought_in(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where in [start, end) the template opens reasoning, and where what closes that begins; None without either.

    The latter is `end` where it stays open. Where reasoning is closed that was not opened, both are where that begins.
    """
    opening = next((found for found in _THOUGHT.finditer(text, start, end) if not is_closing(found[0])), None)
    if opening is None:
        closed = (found for found in _CLOSING.finditer(text, start, end) if is_closing(found[0]))
        closing = next((found.start() for found in closed if _NAMES_THOUGHT.search(found[0])), None)
        return None if closing is None else (closing, closing)
    after = _CLOSING.finditer(text, opening.end(), end)
    return opening.start(), next((found.start() for found in after if is_closing(found[0])), end)


class Openers:
    """What the template's own text opens, so that it can be told what a closing marker closes.

    `literals` gives all that the template writes itself; it is asked at the first marker that may close something.
    """

    def __init__(self, text: str, literals: Callable[[], Iterable[str]]) -> None:
        self._answers: dict[str, bool] = {}
        self._text = text
        self._literals = literals
        self._written: str | None = None
        self._names: set[str] = set()

    def closing_run(self, start: int, end: int, *, turns: bool) -> int:
        """Where a run of closing markers that begins at `start`, white space aside, ends; `start` if there is none.

        Each ends something that the template opens somewhere or, with `turns`, a turn as such.
        """
        at = start
        while (
            (found := SPACED_CLOSING.match(self._text, at, end))
            and is_closing(found[1])
            and (self.opens(found[1]) if _name(found[1]) else turns)
        ):
            at = found.end()
        return at

    def opens(self, marker: str) -> bool:
        """Whether the template opens what `marker` closes."""
        answer = self._answers.get(marker)
        if answer is None:
            if self._written is None:
                self._written = "\n".join(sorted(set(self._literals())))
                self._names = {_name(found[0]) for found in CONTROL.finditer(self._written) if not is_closing(found[0])}
            answer = _name(marker) in self._names or ("/" in marker and marker.replace("/", "", 1) in self._written)
            self._answers[marker] = answer
        return answer


@lru_cache(maxsize=1024)
def _name(marker: str) -> str:
    """What a marker is called apart from begin and end: `tool outputs` of `<｜tool▁outputs▁end｜>`.

    Nothing if it begins or ends a turn as such, or a role's: `<|im_end|>`, `</s>`, `<|user_end|>`.
    """
    words = _words(marker)
    return "" if all(word in ROLES for word in words) else " ".join(words)


def _words(marker: str) -> list[str]:
    letters = re.sub(r"[^a-z]+", " ", _BEGIN.sub(" ", _END.sub(" ", marker)).lower())
    return [word for word in letters.split() if word not in _UNNAMING]


def is_opening(text: str) -> bool:
    """Whether text in front of a start marker opens a sequence or turn too: `<s>` in `<s>[INST]`."""
    return not text.strip() or bool(_BEGIN.search(text))
