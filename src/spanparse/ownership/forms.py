"""What a text shows by its form alone: asked only where a template's own renders leave two answers.

Under other names such a text shows nothing, and whose it is stays unclear: so a name never decides against a render.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# With a slash in front a marker closes something, and so do brackets: `</s>`, `[/INST]`, `<|/user|>`, `]`.
_CLOSING: Final = re.compile(r"\s*(?:<{1,2}[|｜]?/[^<>\s]{1,60}>{1,2}|\[/[^\[\]\s]{1,60}\]|[\"'\])}]+(?=\s|[<\[]|\Z))")
# Names that end turns: `<|im_end|>`, `<|eot_id|>`, Hunyuan's `<|extra_0|>`.
_ENDING: Final = re.compile(
    r"\s*[<\[][|｜]?(?:[^<>\[\]\s]*[^a-z<>\[\]\s])?(?:end(?![a-z])|end_?of|eo[stm](?![a-z])|extra_\d)[^<>\[\]\s]*[>\]]",
    re.IGNORECASE,
)
_BRACKETS: Final = re.compile(r"(?:\s*[\])}])+(?=\s|[<\[]|\Z)")
_NAMES: Final = {
    "assistant": ("assistant", "assistente", "model", "bot", "ai", "response"),
    "user": ("user", "human", "instruction"),
    "tool": ("tool", "observation"),
}
_TAG: Final = r"<[^<>\s]{1,60}>"
_LONGEST_HEADER: Final = 300


@lru_cache(maxsize=1024)
def closes_by_form(text: str) -> int:
    """How many characters of `text` close something by their form from its beginning on, white space behind included
    where nothing else follows."""
    at = 0
    while found := _CLOSING.match(text, at):
        at = found.end()
    return len(text) if at and text[at:].isspace() else at


@lru_cache(maxsize=1024)
def closes_by_name(text: str) -> bool:
    """Whether all of `text` closes something by its form, or by a name that is known to end turns."""
    at = closes_by_form(text)
    while found := _ENDING.match(text, at):
        at = found.end()
        at += closes_by_form(text[at:])
    return bool(at) and not text[at:].strip()


def brackets_in(text: str) -> int:
    """Where the closing brackets end that `text` begins with; they begin no word or marker of another kind."""
    found = _BRACKETS.match(text)
    return found.end() if found else 0


@lru_cache(maxsize=1024)
def header_naming(text: str, role: str) -> int | None:
    """Where the header begins that names `role` at the end of `text`, behind what closes something; None without one.

    Nothing but markers and punctuation stands around the name: `<extra_id_1>Assistant`, `|Bot|: `, `### Response:`.
    """
    found = _naming(role).search(text, max(0, len(text) - _LONGEST_HEADER))
    if found is None:
        return None
    border = found.start() + closes_by_form(text[found.start() :])
    return border + len(text[border:]) - len(text[border:].lstrip())


@lru_cache(maxsize=16)
def _naming(role: str) -> re.Pattern[str]:
    names = "|".join(map(re.escape, _NAMES.get(role, (role,))))
    around = rf"(?:{_TAG}|[^\w<>])*"
    tagged = rf"(?:{_TAG})*<(?:[^\w<>]|_|hy)*(?:{names})(?:[^\w<>]|_)*>"
    plain = rf"(?:{_TAG}|[#*|\[({{] ?)*(?<![\w<])(?:{names})(?![\w>])"
    return re.compile(rf"(?:{tagged}|{plain}){around}\Z", re.IGNORECASE)
