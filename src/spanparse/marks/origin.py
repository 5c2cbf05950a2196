"""Where a stretch of rendered text came from."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, final

Path = tuple[str | int, ...]


class _Origin(NamedTuple):
    path: Path
    literal: bool
    message: int | None


@final
class Origin(_Origin):
    """One origin of rendered text.

    A *field* origin says that characters were copied from (or computed from) the value at `path` of the request, such
    as `("messages", 3, "content")`. A *literal* origin says that the template's own text was evaluated while `path`
    was being rendered; an empty path means that nothing in particular was. `message` is the index of the message that
    the path leads into, else None.
    """

    __slots__ = ()

    def __new__(cls, path: Path, literal: bool = False) -> Origin:
        message = int(path[1]) if len(path) > 1 and path[0] == "messages" else None
        return tuple.__new__(cls, (path, literal, message))

    def __reduce__(self) -> Any:
        """Those that are compared by identity stay themselves in another process."""
        return _restored, (self.path, self.literal)

    def as_literal(self) -> Origin:
        """The origin of template text that is evaluated on behalf of this one."""
        path, literal, message = self
        return self if literal else tuple.__new__(Origin, (path, True, message))

    @property
    def is_outside(self) -> bool:
        """Text from outside the conversation: a template variable of the caller's, a document, the clock."""
        path, literal, message = self
        return not literal and message is None and path[0] not in ("messages", "tools")

    @property
    def field(self) -> str:
        """The path below its message (or the request) as text: `tool_calls[0].function.name`, `tools[2]`."""
        return path_text(self.path[2:] if self.message is not None else self.path)

    def __repr__(self) -> str:
        return f"Origin({'.'.join(map(str, self.path))}{', literal' if self.literal else ''})"


def path_text(path: Path) -> str:
    """A path as text: `messages[3].tool_calls[0].function.arguments.city`; odd keys in quotes, `arguments["a b"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def _restored(path: Path, literal: bool) -> Origin:
    origin = Origin(path, literal)
    return next((known for known in (NOWHERE, GENERATION) if known == origin), origin)


NOWHERE: Final = Origin((), literal=True)
"""Template text outside every loop over the request."""

GENERATION: Final = Origin(("generation_prompt",), literal=True)
"""Template text that stands under `add_generation_prompt`."""

CLOCK: Final = Origin(("strftime_now",))
"""The date and time."""


class Run(NamedTuple):
    """Characters [start, end) of a text that share an origin.

    `source` is the offset in the field's own string of the run's first character when the run is a verbatim copy, -1
    when the characters were computed (cased, escaped, serialised) or are template text.
    """

    start: int
    end: int
    origin: Origin
    source: int
