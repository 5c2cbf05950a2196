"""Plain renders of variations of one request, counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, final

from spanparse.errors import TemplateRefused
from spanparse.rendering.cursor import Limits
from spanparse.rendering.environment import variables_read
from spanparse.rendering.render import Message, Request, render_plain
from spanparse.sources import TemplateSource

# Reading a template for its variables takes as long as rendering it for a short conversation.
_variables = lru_cache(maxsize=64)(variables_read)


@final
class Renderer:
    """Renders variations of `request`; `count` is the number of renders so far, refused ones included.

    Messages that were rendered before with nothing else changed are not rendered again.
    """

    def __init__(self, template: TemplateSource, request: Request, limits: Limits) -> None:
        self.template = template
        self.request = request
        self.count = 0
        self._limits = limits
        self._known: list[tuple[list[Message], str]] = []

    @property
    def variables(self) -> list[str]:
        """Names of the variables that the template reads, sorted."""
        return sorted(_variables(self.template.text, self.template.source))

    def render(self, messages: list[Message], *, kwargs: Mapping[str, Any] | None = None, **changes: Any) -> str:
        """The prompt of `messages`, with `kwargs` over the request's own, and other fields of the request changed.

        Raises what `render_plain` raises.
        """
        changed = kwargs is not None or bool(changes)
        known = None if changed else next((text for other, text in self._known if other == messages), None)
        if known is not None:
            return known
        kwargs = {**self.request.kwargs, **(kwargs or {})}
        request = replace(self.request, messages=messages, kwargs=kwargs, **changes)
        self.count += 1
        text = render_plain(self.template.text, request, name=self.template.source, limits=self._limits)
        if not changed:
            self._known.append((messages, text))
        return text

    def try_render(self, messages: list[Message], **changes: Any) -> str | None:
        """`render` with the same arguments; None where the template refuses."""
        try:
            return self.render(messages, **changes)
        except TemplateRefused:
            return None
