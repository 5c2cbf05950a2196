"""Everything spanparse raises on purpose.

    SpanparseError
    ├── SourceError          a template or tokenizer cannot be read
    │   └── MissingExtra     … because an optional dependency is not installed
    ├── ConversationError    messages or tools are malformed; names message and field
    │   └── MediaUnavailable … or hold media whose content is not at hand
    └── TemplateError        the template cannot be used
        ├── TemplateRefused  it raised on this conversation; carries its own message
        └── TemplateLimit    it ran past one of the caller's limits

Each error's text is one line that names the thing it is about, fit to be shown to a user as it is.
"""

from __future__ import annotations

from typing import Any


class SpanparseError(Exception):
    """Base of all errors that spanparse raises on purpose. They survive `pickle` and `copy`, as from a process pool."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python's own way would call the class with the finished text, which is not what its constructor takes.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[SpanparseError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> SpanparseError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class SourceError(SpanparseError):
    """A template, tokenizer or model file cannot be read.

    `source` is the name the caller gave.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class MissingExtra(SourceError):
    """Reading `source` needs an optional dependency; `extra` names it (`runtime`, `hf`)."""

    def __init__(self, source: str, extra: str, why: str) -> None:
        how = f"pip install '.[{extra}]' in its source folder"
        super().__init__(source, f"{why} needs the [{extra}] extra, which is not installed: {how}")
        self.extra = extra


class ConversationError(SpanparseError):
    """Messages or tools are malformed.

    `where` is a path such as `messages[3].tool_calls[0].function.name`; `message` its message index, None outside
    messages.
    """

    def __init__(self, where: str, reason: str, message: int | None = None) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason
        self.message = message


class MediaUnavailable(ConversationError):
    """A media part may be in order, but its content is not at hand: a URL that nobody fetches, a video, no content."""


class TemplateError(SpanparseError):
    """A template cannot be compiled or used; `template` is its source's name."""

    def __init__(self, template: str, reason: str) -> None:
        super().__init__(f"{template}: {reason}")
        self.template = template
        self.reason = reason


class TemplateRefused(TemplateError):
    """The template raised while it rendered this conversation.

    `reason` holds the template's own words. `message` is the index of the message being rendered, where known.
    """

    def __init__(self, template: str, reason: str, message: int | None = None) -> None:
        where = "" if message is None else f" at messages[{message}]"
        super().__init__(template, f"refuses this conversation{where}: {reason}")
        self.reason = reason
        self.message = message


class TemplateLimit(TemplateError):
    """Rendering ran past one of the caller's `Limits`, which `reason` names."""
