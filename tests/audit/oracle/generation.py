"""The generation prompt: what the text has more than the render without it."""

from __future__ import annotations

import re
from typing import Final

from tests.audit.markers import format_of
from tests.audit.oracle.view import Fault, View
from tests.audit.vocabulary import WORD

_MARKER_BEGIN: Final = re.compile(r"\s*(?:<[|｜]?|\[)?\w*")


def check_generation(view: View) -> list[Fault]:
    """Where the render without a generation prompt is a prefix of the one with it, the rest is the prompt.

    Elsewhere the flag takes something away as well, most often an end of text. What the text has in its place is the
    prompt if it starts a turn and says nothing of a message; it begins where the two part, or with the marker that they
    still share the first characters of.
    """
    prompt = view.rendering.generation_prompt
    base = view.case.text(False) if view.generation else view.text
    if base is None:
        return []
    start = len(view.text) if prompt is None else prompt.start
    if view.text.startswith(base):
        if start == len(base):
            return []
        return [Fault("generation", None, f"{view.text[len(base) :]!r} is added, its own is {view.text[start:]!r}")]
    parted = next(
        (place for place, (a, b) in enumerate(zip(view.text, base, strict=False)) if a != b),
        min(len(view.text), len(base)),
    )
    markers = format_of(view.text)
    # Room for the marker that the renders part within.
    added = view.text[max(0, parted - 20) :]
    if markers is None or WORD.search(view.text, parted) or not markers.start.search(added):
        return []
    hit = next((h for h in markers.start.finditer(view.text) if h.end() > parted), None)
    if hit is None or hit.start() == start or (start <= parted and _MARKER_BEGIN.fullmatch(view.text, start, parted)):
        return []
    return [Fault("generation", None, f"{view.text[hit.start() :]!r} is added, its own is {view.text[start:]!r}")]
