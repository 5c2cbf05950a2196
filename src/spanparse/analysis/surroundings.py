"""What a template writes that comes from no message: beginning of sequence, default text, dates, media placeholders."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any, Final

from spanparse.analysis.findings import Bos, Changes, Clock, Medium
from spanparse.analysis.probes import ONE_USER, TOOLS_SYSTEM, TURNS, USER, WITH_SYSTEM, Probe
from spanparse.analysis.trials import Refusal, Trials
from spanparse.rendering.render import DEFAULT_CLOCK
from spanparse.shared import common_prefix
from spanparse.spans import Rendering

_CLOCKS: Final[tuple[tuple[Changes, datetime.datetime], ...]] = (
    ("within the day", DEFAULT_CLOCK.replace(hour=17, minute=31, second=42)),
    ("every day", DEFAULT_CLOCK.replace(day=2)),
    ("every month", DEFAULT_CLOCK.replace(month=2)),
    ("every year", DEFAULT_CLOCK.replace(year=DEFAULT_CLOCK.year + 1)),
)
_BOS_SHOWN: Final = "{bos}"
_MEDIA: Final[tuple[dict[str, Any], ...]] = (
    {"type": "image", "image": "picture.png"},
    {"type": "image_url", "image_url": {"url": "https://example.org/picture.png"}},
    {"type": "audio", "audio": "sound.wav", "audio_url": "sound.wav"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "video", "video": "film.mp4"},
)


def find_bos(trials: Trials) -> Bos | None:
    """The beginning-of-sequence text, None if the template writes none."""
    rendering = trials.accepted(TURNS) or trials.accepted(ONE_USER)
    if rendering is None or not rendering.preamble.parts or rendering.preamble.parts[0].kind != "bos":
        return None
    part = rendering.preamble.parts[0]
    text = rendering.text[part.start : part.end]
    other = trials.render(trials.request(TURNS, {"bos_token": _BOS_SHOWN}))
    return Bos(text, other is not None and other.startswith(_BOS_SHOWN), rendering.text.count(text))


def default_text(trials: Trials) -> str | None:
    """The system text that the template writes if the conversation has none."""
    rendering = trials.accepted(ONE_USER)
    for part in rendering.preamble.parts if rendering else ():
        if rendering is not None and part.kind == "default_text":
            return rendering.text[part.start : part.end]
    return None


def find_clock(trials: Trials) -> Clock:
    """How often the prompt changes though nothing but time has passed."""
    if "strftime_now" not in trials.template.text:
        return Clock("never")
    for probe in (ONE_USER, TOOLS_SYSTEM, WITH_SYSTEM):
        rendering = trials.accepted(probe)
        if rendering is None:
            continue
        for changes, clock in _CLOCKS:
            later = trials.render(replace(trials.request(probe), clock=clock))
            if later is not None and later != rendering.text:
                return Clock(changes, owner_at(rendering, common_prefix(rendering.text, later)))
    return Clock("never")


def owner_at(rendering: Rendering, offset: int) -> str:
    """`preamble`, `generation prompt` or the role of the message that owns the character at `offset`."""
    for message in rendering.messages:
        if any(piece.start <= offset < piece.end for piece in message.pieces):
            return message.role
    return "preamble" if offset < rendering.preamble.end else "generation prompt"


def find_media(trials: Trials) -> tuple[Medium, ...]:
    """What becomes of each kind of media part, in a message that holds a text as well."""
    media = []
    for item in _MEDIA:
        content = [item, {"type": "text", "text": USER}]
        probe = Probe(f"list content with {item['type']}", ({"role": "user", "content": content},), as_it_is=True)
        found = trials.parse(probe)
        if isinstance(found, Refusal):
            media.append(Medium(item["type"], None, found.reason))
        else:
            media.append(Medium(item["type"], _placeholder(found, item)))
    return tuple(media)


def _placeholder(rendering: Rendering, item: dict[str, Any]) -> str | None:
    """What stands for the part; some templates print the whole list, as JSON or as Python writes it."""
    parts = [part for part in rendering.messages[0].parts if part.kind == "media"]
    if parts:
        return rendering.text[parts[0].start : parts[-1].end]
    return next((text for text in (json.dumps(item), repr(item)) if text in rendering.text), None)
