"""What texts of a template have in common, cut so that no marker and no word is torn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from spanparse.shared import common_prefix

MARKER: Final[re.Pattern[str]] = re.compile(r"<[^<>\n]{1,60}>|\[[^\[\]\n]{1,60}\]")
"""What most templates write their markers like."""

CONTROL: Final = re.compile(
    r"<\|[^<>|\s]{1,40}\|?>|<[^<>|\s/]{1,40}\|>|<｜[^｜\s]{1,40}｜>|<(?:start|end)_of_\w{1,30}>|\[/?[A-Z_]{3,30}\]|</?s>"
)
"""What looks like a control token."""

_OPENING: Final = re.compile(rf"\s*({MARKER.pattern}|[^\W_]+|\S)")
_WORD_AT_END: Final = re.compile(r"[^\W_]+$")
_WORD_AT_START: Final = re.compile(r"^[^\W_]+")


def common_text(texts: Sequence[str], foreign: Sequence[str] = ()) -> str | None:
    """What the texts that open in the most usual way begin with, whole markers and words only.

    Texts open in the same way if, white space aside, their first marker or word is the same. White space in front is
    part of the result only if all of them have it. As long as a text of `foreign` begins with the result, it is made
    longer by the most usual way to go on. None if there is no text but white space.
    """
    group = _most_alike(texts, 0)
    if not group:
        return None
    shared = shared_start(group)
    if not shared.strip():
        group = [text.lstrip() for text in group]
        shared = shared_start(group)
    while any(text.startswith(shared) for text in foreign):
        group = _most_alike(group, len(shared))
        if not group:
            break
        shared = shared_start(group)
    return shared


def _most_alike(texts: Sequence[str], at: int) -> list[str]:
    """The texts that go on in the most usual way behind `at` characters; none if most do not go on."""
    openings = [_OPENING.match(text, at) for text in texts]
    counts = Counter(opening[1] if opening else None for opening in openings)
    usual = counts.most_common(1)[0][0] if counts else None
    return [text for text, opening in zip(texts, openings, strict=True) if opening and opening[1] == usual]


def _whole(prefix: str, texts: Iterable[str]) -> str:
    """`prefix` cut back so that it ends inside no marker and no word of any of the texts it begins."""
    end = len(prefix)
    for text in texts:
        for found in MARKER.finditer(text):
            if found.start() < end < found.end():
                end = found.start()
        if 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
            end = len(_WORD_AT_END.sub("", text[:end]))
    return prefix[:end]


def _characters(texts: Sequence[str]) -> str:
    return texts[0][: min(common_prefix(texts[0], text) for text in texts)] if texts else ""


def shared_start(texts: Sequence[str]) -> str:
    """What all texts begin with, whole markers and words only."""
    return _whole(_characters(texts), texts)


def shared_end(texts: Sequence[str]) -> str:
    """What all texts end with, whole markers and words only."""
    suffix = _characters([text[::-1] for text in texts])[::-1]
    cut = 0
    for text in texts:
        start = len(text) - len(suffix)
        for found in MARKER.finditer(text):
            if found.start() < start < found.end():
                cut = max(cut, found.end() - start)
        if 0 < start < len(text) and text[start - 1].isalnum() and text[start].isalnum():
            cut = max(cut, len(suffix) - len(_WORD_AT_START.sub("", suffix)))
    return suffix[cut:]
