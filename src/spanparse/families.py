"""Template families, and beginning-of-sequence texts, that are known by sight. Exactness never depends on a family."""

from __future__ import annotations

import re
from typing import Final

FAMILIES: Final = {"chatml": ("<|im_start|>", "<|im_end|>"), "harmony": ("<|start|>", "<|channel|>", "<|message|>")}
"""The families that are known by sight, with the texts that show a template to be of one."""

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


def family_of(template: str) -> str:
    """The family of a template's text; `auto` if it is none of those known by sight."""
    return next((name for name, signs in FAMILIES.items() if all(sign in template for sign in signs)), "auto")
