"""What may differ in the next prompt although the conversation only goes on: dates, counters, the order of tools.

A hazard is reported only if a render shows that the prompt depends on it, its remedy only if renders show that less is
lost with it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from spanparse.prediction.divergence import Places
from spanparse.prediction.outcome import Hazard, HazardName, Remedy
from spanparse.prediction.remedies import counts
from spanparse.prediction.renderer import Renderer
from spanparse.rendering.render import Message, Tool
from spanparse.shared import common_prefix
from spanparse.spans import LEADING_ROLES

_CLOCK: Final = "strftime_now"
# One that shows in whatever part of the date a template prints.
_LATER: Final = datetime.timedelta(days=400, hours=7, minutes=11, seconds=13)
_DATE_VARIABLE: Final = re.compile(r"\w*date\w*")

_STAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d|\b\d{1,2}:\d\d\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{10,13}\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}\b"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    re.IGNORECASE,
)
# Many lines that hold a date are fixed (opening hours, a release); these words say that it is that of the request.
_NOW: Final = re.compile(r"\b(?:now|currently|current|today|session|request|timestamp|as of)\b", re.IGNORECASE)
# A longer one is no line that could be moved by itself: the whole text, in a template's or client's one paragraph.
_LONGEST_LINE: Final = 300
_QUOTED: Final = 100


class _Line(NamedTuple):
    """A line of a message's text: its message, where it begins and ends in that text, and what of it changes."""

    message: int
    start: int
    end: int
    stamp: re.Match[str]


def hazards(renderer: Renderer, places: Places, text: str) -> tuple[Hazard, ...]:
    """The hazards of the present prompt `text`. Costs renders only where there is something that may differ."""
    found = (_clock(renderer, places, text), _volatile_line(renderer, places, text), _order(renderer, places, text))
    return tuple(hazard for hazard in found if hazard is not None)


def _clock(renderer: Renderer, places: Places, text: str) -> Hazard | None:
    if _CLOCK not in renderer.template.text:
        return None
    later = renderer.request.clock + _LATER
    messages = renderer.request.messages
    following = renderer.try_render(messages, clock=later)
    if following is None or following == text:
        return None
    remedies = []
    lost = len(text) - common_prefix(text, following)
    for name in renderer.variables:
        if not _DATE_VARIABLE.fullmatch(name):
            continue
        setting = {name: renderer.request.clock.strftime("%d %b %Y")}
        fixed = renderer.try_render(messages, kwargs=setting, clock=later)
        # Written as the template writes it, a date that is given leaves the prompt as it is.
        if fixed is not None and (fixed == text or fixed == renderer.try_render(messages, kwargs=setting)):
            remedies.append(Remedy("kwarg", f"set {name} to a fixed date: {counts(0, lost)}", len(fixed), 0))
    return _hazard("clock", "the template prints the date or time", places, text, following, remedies)


def _volatile_line(renderer: Renderer, places: Places, text: str) -> Hazard | None:
    messages = renderer.request.messages
    line = next(_volatile_lines(messages), None)
    if line is None:
        return None
    content: str = messages[line.message]["content"]
    stamp = line.stamp
    changed = content[: stamp.start()] + _another(stamp[0]) + content[stamp.end() :]
    following = renderer.try_render(_with(messages, line.message, changed))
    if following is None or following == text:
        return None
    lost = len(text) - common_prefix(text, following)
    quoted = " ".join(content[line.start : line.end].split())
    if len(quoted) > _QUOTED:
        quoted = f"{quoted[: _QUOTED - 1]}…"
    what = f"a line of messages[{line.message}] looks as if it changed from request to request: {quoted}"
    return _hazard("volatile_line", what, places, text, following, _at_the_end(renderer, line, changed, lost))


def _at_the_end(renderer: Renderer, line: _Line, changed: str, lost: int) -> list[Remedy]:
    """The line moved behind the text of the last user message, if that keeps more when it changes."""
    messages = renderer.request.messages
    content: str = messages[line.message]["content"]
    last = next((i for i in reversed(range(len(messages))) if messages[i].get("role") == "user"), None)
    if last is None or last <= line.message or not isinstance(messages[last].get("content"), str):
        return []
    if line.end - line.start > _LONGEST_LINE:
        return []
    grown = len(changed) - len(content)
    shortened = _with(messages, line.message, content[: line.start] + content[line.end :].removeprefix("\n"))
    base, following = (
        renderer.try_render(_with(shortened, last, f"{messages[last]['content']}\n\n{moved}"))
        for moved in (content[line.start : line.end], changed[line.start : line.end + grown])
    )
    if base is None or following is None:
        return []
    kept = common_prefix(base, following)
    if len(base) - kept >= lost:
        return []
    text = f"move the line to the end of the last user message: {counts(len(base) - kept, lost)}"
    return [Remedy("placement", text, kept, len(base) - kept)]


def _order(renderer: Renderer, places: Places, text: str) -> Hazard | None:
    tools = renderer.request.tools or []
    ordered = sorted(tools, key=_name)
    if ordered == tools or len({*map(_name, tools)}) < len(tools):
        return None
    # Any other order shows what is lost; this one is also the prompt that sorting makes of every order.
    following = renderer.try_render(renderer.request.messages, tools=ordered)
    if following is None or following == text:
        return None
    lost = len(text) - common_prefix(text, following)
    remedies = [Remedy("order", f"sort the tools by name: {counts(0, lost)}", len(following), 0)]
    what = "the tools are not in the order of their names: another order would be another prompt"
    return _hazard("tools_order", what, places, text, following, remedies)


def _hazard(name: HazardName, what: str, places: Places, text: str, following: str, remedies: list[Remedy]) -> Hazard:
    kept = common_prefix(text, following)
    return Hazard(name, what, kept, len(text) - kept, places.divergence(kept, ()), tuple(remedies))


def _volatile_lines(messages: list[Message]) -> Iterator[_Line]:
    for index, message in enumerate(messages):
        content = message.get("content")
        if message.get("role") not in LEADING_ROLES or not isinstance(content, str):
            continue
        for stamp in _STAMP.finditer(content):
            start = content.rfind("\n", 0, stamp.start()) + 1
            end = content.find("\n", stamp.end())
            end = len(content) if end < 0 else end
            if _NOW.search(content, start, end):
                yield _Line(index, start, end, stamp)


def _another(stamp: str) -> str:
    """The stamp with every digit another, so that it differs from its first digit on."""
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), stamp)


def _with(messages: list[Message], index: int, content: Any) -> list[Message]:
    return [*messages[:index], {**messages[index], "content": content}, *messages[index + 1 :]]


def _name(tool: Tool) -> str:
    return str(tool.get("function", tool).get("name"))
