"""Template families: names and turn markers that are known by sight.

A family adds a name and start markers; exactness never depends on it. What is not known by sight is `auto`, whose
markers are learned from what the template itself writes in front of messages.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Family(NamedTuple):
    """A family's name, the markers that start a turn, and the texts that show a template to be of it."""

    name: str
    starts: frozenset[str]
    signs: tuple[str, ...]


CHATML = Family("chatml", frozenset({"<|im_start|>"}), ("<|im_start|>", "<|im_end|>"))
HARMONY = Family("harmony", frozenset({"<|start|>"}), ("<|start|>", "<|channel|>", "<|message|>"))
AUTO = Family("auto", frozenset(), ())


# Beginning-of-sequence texts that templates write by themselves when the caller gives none.
_BEGINNINGS: Final = (
    *("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>"),
    *("[BOS]", "[gMASK]<sop>", "[gMASK]sop"),
)
# And those that say so by their names: `<|begin_of_sentence|>`, `<|beginoftext|>`, `<｜hy_begin▁of▁sentence｜>`.
_NAMED_BEGINNING: Final = re.compile(r"<[|｜](?:\w+[_▁])?begin[_▁]?of[_▁]?(?:text|sentence|sequence)(?::\w+)?[|｜]>")


def bos_of(text: str, given: str) -> str:
    """The beginning-of-sequence text that `text` opens with, and white space in front of it; "" if there is none.

    It is the one `given`, a well-known one or one that is named so.
    """
    begin = len(text) - len(text.lstrip())
    known = next((bos for bos in (given, *_BEGINNINGS) if bos and text.startswith(bos, begin)), None)
    named = _NAMED_BEGINNING.match(text, begin) if known is None else None
    found = named[0] if named else known
    return text[: begin + len(found)] if found else ""


def family_of(template: str) -> Family:
    """The family of a template's text."""
    for family in (CHATML, HARMONY):
        if all(sign in template for sign in family.signs):
            return family
    return AUTO
