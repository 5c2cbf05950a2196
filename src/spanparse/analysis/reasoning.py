"""How reasoning is written, which messages still show it later, and what becomes of reasoning inside the content."""

from __future__ import annotations

import re
from typing import Final

from spanparse.analysis import probes
from spanparse.analysis.affixes import MARKER
from spanparse.analysis.findings import Inline, Kept, Reasoning, RoleMarkers
from spanparse.analysis.probes import Probe
from spanparse.analysis.trials import Trials
from spanparse.rendering.render import Message
from spanparse.spans import MessageSpan, Rendering

_FIELD: Final = "reasoning_content"
_OTHER_FIELDS: Final = ("reasoning", "thinking")
_PART_FIELD: Final = "content parts of type thinking"
_LAST_MARKER: Final = re.compile(rf"(?:{MARKER.pattern})\s*$")


def find_reasoning(trials: Trials, assistant: RoleMarkers | None) -> Reasoning | None:
    """What the template does with reasoning; None if it neither reads any field of it nor changes it in contents."""
    fields = (
        [_FIELD] if any(_shows(trials.accepted(probe)) for probe in (probes.THINKING, probes.THINKING_LOOP)) else []
    )
    fields += [field for field in _OTHER_FIELDS if _reads(trials, field)]
    if _reads_part(trials):
        fields.append(_PART_FIELD)
    inline = _inline(trials)
    if not fields and inline == "kept":
        return None
    renamed = next((field for field in fields if field != _PART_FIELD), _FIELD)
    renderings = [
        trials.accepted(_renamed(probe, renamed))
        for probe in (probes.THINKING, probes.THINKING_LOOP, probes.THINKING_TURNS)
    ]
    start, end = _markers(renderings, assistant)
    return Reasoning(tuple(fields), start, end, _kept(*renderings), inline)


def _renamed(probe: Probe, field: str) -> Probe:
    """The probe with its reasoning in `field`."""
    if field == _FIELD:
        return probe
    messages = tuple({field if key == _FIELD else key: value for key, value in m.items()} for m in probe.messages)
    return probe._replace(shape=f"{probe.shape}, as {field}", messages=messages)


def _reads(trials: Trials, field: str) -> bool:
    return field in trials.template.text and any(
        _shows(trials.accepted(_renamed(probe, field))) for probe in (probes.THINKING, probes.THINKING_LOOP)
    )


def _reads_part(trials: Trials) -> bool:
    """Whether a content part of type thinking is shown (Magistral's way)."""
    question, answered = probes.ANSWER_LAST.messages
    inner = [{"type": "text", "text": probes.REASONING}]
    answer: Message = {
        **answered,
        "content": [{"type": "thinking", "thinking": inner}, {"type": "text", "text": answered["content"]}],
    }
    probe = Probe("reasoning as a content part", (question, answer), add_generation_prompt=False, as_it_is=True)
    if "thinking" not in trials.template.text:
        return False
    found = trials.accepted(probe)
    # A list that is printed as it is shows everything and reads nothing.
    printed = "'thinking'", '"thinking"'
    return found is not None and probes.REASONING in found.text and not any(name in found.text for name in printed)


def _shows(rendering: Rendering | None) -> bool:
    return rendering is not None and any(_reasoning_of(message) for message in rendering.messages)


def _reasoning_of(message: MessageSpan) -> int | None:
    """The place among the message's parts of its reasoning."""
    return next((place for place, part in enumerate(message.parts) if part.kind == "reasoning"), None)


def _markers(renderings: list[Rendering | None], assistant: RoleMarkers | None) -> tuple[str | None, str | None]:
    """The template's text around reasoning, without what begins every assistant message."""
    begin = (assistant.start if assistant else None) or ""
    for rendering in renderings:
        for message in rendering.messages if rendering else ():
            place = _reasoning_of(message)
            if rendering is None or place is None:
                continue
            part = message.parts[place]
            before, after = message.parts[:place], message.parts[place + 1 :]
            lead = rendering.text[before[-1].start : part.start] if before else ""
            start = lead.removeprefix(begin) if before and before[-1].kind == "header" else lead
            if not start.strip():
                found = _LAST_MARKER.search(lead)
                start = found[0] if found else ""
            end = rendering.text[after[0].start : after[0].end] if after and after[0].kind == "delimiter" else ""
            if begin and begin in end:
                end = end[: end.index(begin)]
            return start or None, end or None
    return None, None


def _kept(last: Rendering | None, loop: Rendering | None, turns: Rendering | None) -> Kept:
    """Which reasoning is shown, from a lone answer, a running tool loop behind an earlier turn, and three turns."""
    if _holds(turns, probes.REASONING) or _holds(loop, probes.REASONING):
        return "always"
    if _holds(loop, probes.SECOND_REASONING) or (loop is None and _holds(last, probes.REASONING)):
        return "since the last user message"
    if _holds(loop, probes.THIRD_REASONING) or _holds(last, probes.REASONING):
        return "in the last message only"
    return "never"


def _holds(rendering: Rendering | None, text: str) -> bool:
    return rendering is not None and text in rendering.text


def _inline(trials: Trials) -> Inline:
    """What becomes of reasoning that the caller left in the content."""
    found = trials.accepted(probes.INLINE_TURNS)
    if found is None or probes.REASONING in found.text or not _holds(trials.accepted(probes.TURNS), probes.ANSWER):
        return "kept"
    return "dropped from earlier turns" if probes.SECOND_REASONING in found.text else "dropped"
