"""Markers by which templates show where turns begin and end, read off the text that they write themselves."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

CONTROL = re.compile(
    r"<\|[^<>|\s]{1,40}\|?>|<[^<>|\s/]{1,40}\|>|<[a-z_]*(?:start|turn|bos|eos)[a-z_]*>|<｜[^｜]{1,40}｜>|\[[A-Z_]{2,30}\]"
    r"|\[\|[^\[\]|\s]{1,40}\|\]"
)
_CLOSING = re.compile(CONTROL.pattern + r"|</[^<>\s]{1,40}>|<</[A-Z]{2,30}>>|\[/[A-Z_]{2,30}\]")
_OPENING = re.compile(CONTROL.pattern + r"|<[^<>\s/]{1,40}>|<<[A-Z]{2,30}>>")
_END = re.compile(r"(?<![a-z])end(?![a-z])|end_?of|eot(?![a-z])|eos(?![a-z])|eom(?![a-z])|/", re.IGNORECASE)
_BEGIN = re.compile(r"begin|start|bos|<s>", re.IGNORECASE)
RESULT_ROLES: Final = frozenset({"tool", "ipython", "function", "tool_results", "tool_response", "observation"})
"""What the role of a tool's result is called: by clients and by published templates."""

_NAMES = {"assistant": ("assistant", "model", "bot"), "user": ("user", "human"), "tool": ("tool", "observation")}
ROLES: Final = ("assistant", "user", "system", "developer", "tool", "model", "human", "bot")
_UNNAMING = frozenset({"im", "of", "id", "turn", "token", "sentence", "text", "prompt", "s"})
# A marker that names thought (`<think>`, `<|START_THINKING|>`), or has such a name behind it (`<|channel>thought`).
_THOUGHT = re.compile(
    r"<[^<>\s/]*(?:think|thought|reason)[^<>\s]*>|\[THINK\]|<[^<>\s]+>(?:thought|analysis)\b", re.IGNORECASE
)
_NAMES_THOUGHT = re.compile(r"think|thought|reason", re.IGNORECASE)


@lru_cache(maxsize=16_384)
def names_role(marker: str, *roles: str) -> bool:
    """Whether a marker ends with the name of one of `roles`, fillers aside: `<|hy_User|>`, `<|SYSTEM_TOKEN|>`."""
    words = _words(marker)
    return bool(words) and words[-1].endswith(tuple(name for role in roles for name in _NAMES.get(role, (role,))))


@lru_cache(maxsize=1024)
def is_closing(marker: str) -> bool:
    """Whether a marker ends something, as far as its name shows: `<|im_end|>`, `[/INST]`, Gemma 4's `<turn|>`."""
    return bool(_END.search(marker)) or (marker.endswith("|>") and not marker.startswith("<|"))


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


def turns_end(text: str, start: int, end: int) -> int:
    """Where the last marker in [start, end) ends that closes a turn by its name, 0 if there is none."""
    closing = (found for found in _CLOSING.finditer(text, start, end) if is_closing(found[0]) and not _name(found[0]))
    return max((found.end() for found in closing), default=0)


def has_marker(text: str, start: int, end: int) -> bool:
    """Whether there is a marker in [start, end), of whatever kind."""
    return _CLOSING.search(text, start, end) is not None


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
