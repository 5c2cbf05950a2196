"""Trying probes on one template: each is parsed once, and all of them share one time limit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from spanparse.analysis.probes import ONE_USER, TURNS, Probe
from spanparse.errors import TemplateLimit, TemplateRefused
from spanparse.parse import parse_request
from spanparse.rendering.cursor import Limits
from spanparse.rendering.render import DEFAULT_CLOCK, Message, Request, render_plain
from spanparse.sources import TemplateSource
from spanparse.spans import Rendering


class Refusal(NamedTuple):
    """The template's own words, and the index of the message they are about where known."""

    reason: str
    message: int | None


class Trials:
    """A template under analysis.

    `kwargs` are given to every rendering. `content_as` says in which form it gets texts: as they are, or, for templates
    that take nothing else, in a list of one part. Both may be changed as long as no probe has been tried.
    """

    def __init__(self, template: TemplateSource, kwargs: Mapping[str, Any], limits: Limits) -> None:
        self.template = template
        self.kwargs = dict(kwargs)
        self.content_as: Literal["text", "parts"] = "text"
        self._limits = limits.started()
        self._tried: dict[str, Rendering | Refusal] = {}

    def parse(self, probe: Probe) -> Rendering | Refusal:
        """The probe's rendering; the same object each time. Raises `TemplateLimit`."""
        found = self._tried.get(probe.shape)
        if found is None:
            found = self._tried[probe.shape] = self.parse_with(probe, {})
        return found

    def accepted(self, probe: Probe) -> Rendering | None:
        """The probe's rendering, None if it is refused."""
        found = self.parse(probe)
        return None if isinstance(found, Refusal) else found

    def parse_with(self, probe: Probe, variables: Mapping[str, Any]) -> Rendering | Refusal:
        """A fresh rendering under further template variables. Raises `TemplateLimit`."""
        try:
            return parse_request(self.template, self.request(probe, variables), limits=self._running())
        except TemplateRefused as refused:
            return Refusal(refused.reason, refused.message)

    def under(self, variables: Mapping[str, Any]) -> Trials:
        """Trials of the same template under further variables, against the same deadline."""
        other = Trials(self.template, {**self.kwargs, **variables}, self._limits)
        other.content_as = self.content_as
        return other

    def render(self, request: Request) -> str | None:
        """The plain text, None if the request is refused. Raises `TemplateLimit`."""
        try:
            return render_plain(self.template.text, request, name=self.template.source, limits=self._running())
        except TemplateRefused:
            return None

    def request(self, probe: Probe, variables: Mapping[str, Any] | None = None) -> Request:
        """What the template is given for `probe`."""
        messages = [self._in_form(message, probe) for message in probe.messages]
        kwargs = {**self.kwargs, **(variables or {})}
        return Request(messages, list(probe.tools) or None, kwargs, probe.add_generation_prompt, DEFAULT_CLOCK)

    def tried(self) -> Mapping[str, Rendering | Refusal]:
        """All that was parsed so far, by shape."""
        return self._tried

    def _in_form(self, message: Message, probe: Probe) -> Message:
        content = message.get("content")
        if self.content_as == "text" or probe.as_it_is or not isinstance(content, str):
            return message
        return {**message, "content": [{"type": "text", "text": content}]}

    def _running(self) -> Limits:
        """The limits, with the time that has passed; small renders are too short to notice its end themselves."""
        if self._limits.until is not None and time.monotonic() > self._limits.until:
            raise TemplateLimit(
                self.template.source, f"still analysing after {self._limits.seconds:g} s (Limits.seconds)"
            )
        return self._limits


def settle_form(trials: Trials) -> None:
    """Choose the form of content under which the template shows most of a conversation: text, if that is as good."""
    shown = {}
    for form in ("text", "parts"):
        trials.content_as = form
        shown[form] = max(map(_shown, (trials.parse_with(probe, {}) for probe in (ONE_USER, TURNS))))
    trials.content_as = "parts" if shown["parts"] > shown["text"] else "text"


def _shown(found: Rendering | Refusal) -> int:
    """How many messages have their text in the rendering."""
    if isinstance(found, Refusal):
        return 0
    return sum(any(part.kind == "content" for part in message.parts) for message in found.messages)
