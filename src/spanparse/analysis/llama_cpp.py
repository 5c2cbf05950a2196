"""The two markers that llama.cpp's general method finds, to be shown beside ours.

llama.cpp (`common/chat-diff-analyzer.cpp`, release of October 2026) renders a conversation with and without one more
message and takes what is new, up to that message's text, for the marker of its role. It looks for one of users and one
of assistants, matches their tokens anywhere in a prompt, and leaves other roles, ends of turns and quoted markers
aside. For some formats (gpt-oss, Gemma 4, Qwen3-Coder and a few more) it has hand-written parsers with markers of
their own instead, and for five templates it corrects the result by name; neither is imitated here.
"""

from __future__ import annotations

import re
from typing import Final

from spanparse.analysis.findings import LlamaCpp
from spanparse.analysis.trials import Trials
from spanparse.rendering.render import Message, Request
from spanparse.shared import common_prefix

_USER: Final = "Where is the U of the station?"
_OTHER_USER: Final = "Which V is the ferry?"
_ANSWER: Final = "An answer from A to Z."
_REASONING: Final = "R is for reasoning."
# A marker is anything between angle or square brackets, as llama.cpp cuts a text.
_PIECE: Final = re.compile(r"<[^>]*>|\[[^\]]*\]|[^<\[]+|[<\[].*\Z", re.DOTALL)
_WRAPPED: Final = re.compile(rf"((?:<[^<>]*>|\[[^\[\]]*\])\s*){re.escape(_REASONING)}(\s*(?:<[^<>]*>|\[[^\[\]]*\])\s*)")
_CLOSED: Final = re.compile(rf"{re.escape(_REASONING)}\s*((?:<[^<>]*>|\[[^\[\]]*\])\s*)")
_CLOSING: Final = ("end", "close")


def llama_cpp_markers(trials: Trials) -> LlamaCpp:
    """What llama.cpp would take for the start of a user's and of an assistant's message."""
    return LlamaCpp(_user_start(trials), _assistant_start(trials))


def _user_start(trials: Trials) -> str:
    user, answer, other = _user(_USER), _answer(), _user(_OTHER_USER)
    added = _added(trials, [], [user])
    if added is None:
        added = _added(trials, [other, answer], [other, answer, user])
    if added is None:
        return ""
    if _ANSWER in added:
        added = added[added.index(_ANSWER) + len(_ANSWER) :]
    kept = []
    opened = False
    for piece in _PIECE.findall(added.partition(_USER)[0]):
        closes = _is_marker(piece) and any(word in piece.lower() for word in _CLOSING)
        if not opened and (closes or not piece.strip()):
            continue
        opened = opened or _is_marker(piece)
        kept.append(piece)
    return "".join(kept).strip()


def _assistant_start(trials: Trials) -> str:
    added = _added(trials, [_user(_USER)], [_user(_USER), _answer()])
    if added is None:
        return ""
    start = added.partition(_ANSWER)[0]
    for marker in _reasoning_markers(trials):
        if marker.strip() and marker.strip() in start:
            start = start[: start.index(marker.strip())]
    return start.strip()


def _reasoning_markers(trials: Trials) -> tuple[str, str]:
    """What it takes for the markers of reasoning, off which it cuts an assistant's start."""
    start = end = ""
    question = _user(_USER)
    rendered = _both(trials, [question, _answer()], [question, {**_answer(), "reasoning_content": _REASONING}])
    if rendered is not None and _REASONING in _split(*rendered)[1]:
        wrapped, closed = _WRAPPED.search(rendered[1]), _CLOSED.search(rendered[1])
        if wrapped:
            start, end = wrapped[1], wrapped[2]
        elif closed:
            end = closed[1]
    off, on = (_render(trials, [question], thinking, True) for thinking in (False, True))
    if off is None or on is None:
        return start, end
    only_off, only_on = _split(off, on)
    if only_on.strip() and not only_off.strip() and on.endswith(only_on.strip()):
        start = start or only_on
    elif only_off.strip() and not only_on.strip() and off.endswith(only_off.strip()) and not end:
        pieces = [piece for piece in _PIECE.findall(off) if piece.strip()]
        if len(pieces) > 1 and pieces[-1] == only_off.strip() and _is_marker(pieces[-2]):
            start = pieces[-2]
        end = only_off
    return start, end


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _answer() -> Message:
    return {"role": "assistant", "content": _ANSWER}


def _added(trials: Trials, before: list[Message], after: list[Message]) -> str | None:
    """What is in the second rendering only; None if either is refused."""
    rendered = _both(trials, before, after)
    return None if rendered is None else _split(*rendered)[1]


def _both(trials: Trials, before: list[Message], after: list[Message]) -> tuple[str, str] | None:
    first, second = (_render(trials, messages, True, False) for messages in (before, after))
    return None if first is None or second is None else (first, second)


def _render(trials: Trials, messages: list[Message], thinking: bool, generate: bool) -> str | None:
    return trials.render(Request(messages, None, {**trials.kwargs, "enable_thinking": thinking}, generate))


def _split(first: str, second: str) -> tuple[str, str]:
    """What each of two texts has for itself once the pieces are taken off that both begin or both end with.

    As there, the last piece left of one text stays to be compared again with the other end of the other text.
    """
    a, b = _PIECE.findall(first), _PIECE.findall(second)
    if not a or not b:
        return first, second
    a_taken = b_taken = False
    taken = True
    while taken and len(a) > 1 and len(b) > 1:
        taken = False
        if a[0] == b[0]:
            del a[0], b[0]
            taken = True
        if a[-1] == b[-1]:
            a_taken, b_taken = _take_last(a) or a_taken, _take_last(b) or b_taken
            taken = True
    if len(a) == 1 and len(b) > 1 and a[0] in (b[-1], b[0]):
        del b[-1 if a[0] == b[-1] else 0]
        a_taken = True
    elif len(b) == 1 and len(a) > 1 and b[0] in (a[-1], a[0]):
        del a[-1 if b[0] == a[-1] else 0]
        b_taken = True
    left, right = "".join(a[: len(a) - a_taken]), "".join(b[: len(b) - b_taken])
    tail = 0 if _is_marker(a[-1]) or _is_marker(b[-1]) else common_prefix(left[::-1], right[::-1])
    left, right = left[: len(left) - tail], right[: len(right) - tail]
    head = 0 if _is_marker(a[0]) or _is_marker(b[0]) else common_prefix(left, right)
    left, right = left[head:], right[head:]
    if right and not left and second.startswith(first):
        return "", second[len(first) :]
    return left, right


def _take_last(pieces: list[str]) -> bool:
    """Takes the last piece off unless it is the only one; whether it was."""
    if len(pieces) > 1:
        del pieces[-1]
        return False
    return True


def _is_marker(piece: str) -> bool:
    return piece[0] in "<[" and piece[-1] in ">]"
