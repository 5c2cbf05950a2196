"""What would keep more of a prompt: only what a render has confirmed.

Each candidate is applied to the present request and to the next one, both are rendered, and it counts if less is lost
than without. A template may read a variable and do something else with it than its name says; so nothing here trusts
names: they only choose what is tried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from spanparse.prediction.continuation import Continuation
from spanparse.prediction.outcome import Change, Divergence, Remedy
from spanparse.prediction.renderer import Renderer
from spanparse.shared import common_prefix
from spanparse.spans import LEADING_ROLES, Rendering

# Names of variables that decide over old reasoning in published templates: preserve_thinking, keep_past_thinking,
# truncate_history_thinking, clear_thinking, skip_think …; each with the value by which its name says to keep it.
_HISTORY: Final = (
    (re.compile(r"(preserve|keep|retain|include)_\w*(think|reason)\w*"), True),
    (re.compile(r"(clear|truncate|strip|skip|drop)_\w*(think|reason)\w*"), False),
)
# And of those that decide whether the next answer has any.
_MODE: Final = re.compile(r"thinking|(enable|disable|use)_(think|reason)\w*")
_REASONING: Final = re.compile(r"reason|think", re.IGNORECASE)
_TEMPLATE_TEXT: Final = frozenset({"header", "delimiter", "trailer", "generation_prompt"})


class Lossy(NamedTuple):
    """A continuation of which the template keeps less than it could.

    `following` is the next prompt; it parts from the present one after `kept` characters, at `diverges`. `changes` are
    the fields that do not come back.
    """

    continuation: Continuation
    following: str
    kept: int
    diverges: Divergence | None
    changes: tuple[Change, ...]

    @property
    def is_of_prompt(self) -> bool:
        """Whether nothing in front of the generation prompt is lost."""
        return self.diverges is not None and self.diverges.field == "generation_prompt"


def kwarg_remedies(renderer: Renderer, present: Rendering, lossy: Sequence[Lossy]) -> list[list[Remedy]]:
    """For each of `lossy` the variables that make the template keep more of the `present` prompt, the best one first.

    Only where reasoning or the template's text is lost, and only until nothing is. A value costs a render of the first
    of `lossy`, which should be the one with most in it; a second one, of the present request, if that changes or the
    loss is of the generation prompt; and if either has changed, one for each of the others.
    """
    found: list[list[Remedy]] = [[] for _ in lossy]
    for name, value in _candidates(renderer):
        setting = {name: value}
        open_ = [
            (entry, remedies)
            for entry, remedies in zip(lossy, found, strict=True)
            if _is_of_reasoning(renderer, entry) and all(remedy.lost_chars for remedy in remedies)
        ]
        if not open_:
            break
        first = open_[0][0]
        following = renderer.try_render(first.continuation.messages, kwargs=setting)
        unchanged = following == first.following
        if following is None or (unchanged and not any(entry.is_of_prompt for entry, _ in open_)):
            continue
        base = renderer.try_render(renderer.request.messages, kwargs=setting)
        if base is None or (unchanged and base == present.text):
            continue
        also = "" if _asks_the_same(present, base) else " (which also changes what the model is asked to do)"
        for entry, remedies in open_:
            if entry is not first:
                following = renderer.try_render(entry.continuation.messages, kwargs=setting)
            if following is None:
                continue
            shared = common_prefix(base, following)
            lost, before = len(base) - shared, len(present.text) - entry.kept
            if lost < before:
                text = f"set {name}={json.dumps(value)}{also}: {counts(lost, before)}"
                remedies.append(Remedy("kwarg", text, shared, lost))
    return [sorted(remedies, key=lambda remedy: remedy.lost_chars) for remedies in found]


def reasoning_remedy(renderer: Renderer, text: str, lossy: Lossy) -> Remedy | None:
    """Sending the answer's reasoning back, where it would not be and that keeps more of `text`.

    Costs a render at most: an answer can only change what is lost of the generation prompt in front of it.
    """
    thinking = lossy.continuation.with_reasoning() if lossy.is_of_prompt else None
    if thinking is None:
        return None
    following = renderer.try_render(thinking.messages)
    kept = 0 if following is None else common_prefix(text, following)
    if kept <= lossy.kept:
        return None
    lost = len(text) - kept
    what = f"send the answer's reasoning_content back: {counts(lost, len(text) - lossy.kept)}"
    return Remedy("reasoning", what, kept, lost)


def _candidates(renderer: Renderer) -> Iterator[tuple[str, bool]]:
    """Variables that look like switches over reasoning, with the values they do not have; those over history first."""
    given = renderer.request.kwargs
    for pattern, keeps in _HISTORY:
        for name in filter(pattern.fullmatch, renderer.variables):
            if given.get(name) is not keeps:
                yield name, keeps
    for name in filter(_MODE.fullmatch, renderer.variables):
        yield from ((name, value) for value in (True, False) if given.get(name) is not value)


def _is_of_reasoning(renderer: Renderer, lossy: Lossy) -> bool:
    """Whether what is lost is reasoning, or the template's text, which may be what surrounds it."""
    if lossy.diverges is not None and lossy.diverges.field in _TEMPLATE_TEXT:
        return True
    if any(_REASONING.search(change.field) for change in lossy.changes):
        return True
    messages = renderer.request.messages
    gone = [change.message for change in lossy.changes if change.message is not None]
    return any("</think>" in str(messages[index].get("content")) for index in gone)


def _asks_the_same(present: Rendering, base: str) -> bool:
    """Whether `base` begins with the same system text and ends with the same generation prompt.

    Then what differs is history only.
    """
    first = present.messages[0]
    end = (first.end or 0) if first.role in LEADING_ROLES else present.preamble.end
    generation = present.generation_prompt
    asked = "" if generation is None else present.text[generation.start : generation.end]
    return base.startswith(present.text[:end]) and base.endswith(asked)


def counts(lost: int, before: int) -> str:
    """How much is lost with a remedy and was without, in words."""
    return f"{lost:,} of {before:,} characters are still lost" if lost else f"none of {before:,} characters is lost"
