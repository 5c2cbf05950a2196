"""What would keep more of a prompt: only what a render has confirmed.

Each candidate is applied to the present request and to the next one, both are rendered, and it counts if less is lost
than without. A template may read a variable and do something else with it than its name says; so nothing here trusts
names: they only choose what is tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from spanparse.prediction.continuation import Continuation
from spanparse.prediction.outcome import Remedy
from spanparse.prediction.renderer import Renderer
from spanparse.proof import common_prefix
from spanparse.spans import Rendering

# Names of variables that decide over reasoning in published templates: preserve_thinking, keep_past_thinking,
# truncate_history_thinking, clear_thinking, skip_think, enable_thinking, thinking …
_HISTORY: Final = re.compile(r"(preserve|keep|retain|include|clear|truncate|strip|skip|drop)_\w*(think|reason)\w*")
_MODE: Final = re.compile(r"thinking|(enable|disable|use)_(think|reason)\w*")


class Lossy(NamedTuple):
    """A continuation of which the template keeps less than it could: `following` is the next prompt."""

    continuation: Continuation
    following: str
    kept: int


def kwarg_remedies(renderer: Renderer, present: Rendering, lossy: Sequence[Lossy]) -> list[list[Remedy]]:
    """For each of `lossy` the variables that make the template keep more of the `present` prompt, the best one first.

    Costs two renders for each value that is tried, of the present request and of the first of `lossy`, and where they
    change, one for each of the others. So the first should be the one with most in it.
    """
    found: list[list[Remedy]] = [[] for _ in lossy]
    for name, value in _candidates(renderer):
        setting = {name: value}
        base = renderer.try_render(renderer.request.messages, kwargs=setting)
        first = None if base is None else renderer.try_render(lossy[0].continuation.messages, kwargs=setting)
        if base is None or first is None or (base == present.text and first == lossy[0].following):
            continue
        also = "" if _asks_the_same(present, base) else " (which also changes what the model is asked to do)"
        for place, (continuation, _, kept) in enumerate(lossy):
            following = first if place == 0 else renderer.try_render(continuation.messages, kwargs=setting)
            if following is None:
                continue
            shared = common_prefix(base, following)
            lost, before = len(base) - shared, len(present.text) - kept
            if lost < before:
                text = f"set {name}={json.dumps(value)}{also}: {counts(lost, before)}"
                found[place].append(Remedy("kwarg", text, shared, lost))
    return [sorted(remedies, key=lambda remedy: remedy.lost_chars) for remedies in found]


def reasoning_remedy(renderer: Renderer, text: str, lossy: Lossy) -> Remedy | None:
    """Sending the answer's reasoning back, where it would not be and that keeps more of `text`. Costs one render."""
    thinking = lossy.continuation.with_reasoning()
    if thinking is None:
        return None
    following = renderer.try_render(thinking.messages)
    kept = 0 if following is None else common_prefix(text, following)
    if kept <= lossy.kept:
        return None
    lost = len(text) - kept
    return Remedy(
        "reasoning",
        f"send the answer's reasoning_content back: {counts(lost, len(text) - lossy.kept)}",
        kept,
        lost,
    )


def _candidates(renderer: Renderer) -> Iterable[tuple[str, bool]]:
    """Variables that look like switches over reasoning, with the values they do not have; those over history first."""
    given = renderer.request.kwargs
    for pattern in (_HISTORY, _MODE):
        for name in renderer.variables:
            if pattern.fullmatch(name):
                yield from ((name, value) for value in (True, False) if given.get(name) is not value)


def _asks_the_same(present: Rendering, base: str) -> bool:
    """Whether `base` begins with the same system text and ends with the same generation prompt.

    Then what differs is history only.
    """
    first = present.messages[0]
    end = (first.end or 0) if first.role in ("system", "developer") else present.preamble.end
    generation = present.generation_prompt
    asked = "" if generation is None else present.text[generation.start : generation.end]
    return base.startswith(present.text[:end]) and base.endswith(asked)


def counts(lost: int, before: int) -> str:
    """How much is lost with a remedy and was without, in words."""
    return f"{lost:,} of {before:,} characters are still lost" if lost else f"none of {before:,} characters is lost"
