"""The generation prompt: what the text has more than the render without it."""

from __future__ import annotations

from tests.audit.oracle.view import Fault, View


def check_generation(view: View) -> list[Fault]:
    """Where the render without a generation prompt is a prefix of the one with it, the rest is the prompt.

    Where it is no prefix, the flag rewrites more than the end, and only the other checks can tell.
    """
    prompt = view.rendering.generation_prompt
    base = view.case.text(False) if view.generation else view.text
    if base is None or not view.text.startswith(base):
        return []
    start = len(view.text) if prompt is None else prompt.start
    if start == len(base):
        return []
    return [Fault("generation", None, f"{view.text[len(base) :]!r} is added, its own is {view.text[start:]!r}")]
