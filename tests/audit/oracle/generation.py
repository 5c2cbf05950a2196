"""The generation prompt: what the text has more than the render without it."""

from __future__ import annotations

from tests.audit.markers import format_of
from tests.audit.oracle.view import Fault, View


def check_generation(view: View) -> list[Fault]:
    """Where the render without a generation prompt is a prefix of the one with it, the rest is the prompt.

    One exception: what the last message has only when something follows it (the end of its turn) is its own.
    """
    prompt = view.rendering.generation_prompt
    base = view.case.text(False)
    # A template may open the assistant's turn whatever the flag says.
    if base == view.case.text(True):
        return []
    if not view.generation:
        return [] if prompt is None else [Fault("generation", None, "is there though none was asked for")]
    if base is None or not view.text.startswith(base):
        return []
    start = len(view.text) if prompt is None else prompt.start
    added = view.text[len(base) :]
    # White space after the last message may look like that in front of the prompt.
    if view.text[start : len(base)].strip():
        return [Fault("generation", None, f"begins with {view.text[start : len(base)]!r}, which is there without it")]
    own = view.text[len(base) : start]
    markers = format_of(view.text)
    if added and (start == len(view.text) or (markers is not None and markers.start.search(own))):
        return [Fault("generation", None, f"{added!r} is added, its own is {view.text[start:]!r}")]
    return []
