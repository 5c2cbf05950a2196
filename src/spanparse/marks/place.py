"""Places in a request, with the origins of what stands there.

The places of one conversation are those of the next, so they are kept from one render to another.
"""

from __future__ import annotations

from typing import ClassVar, Final, final

from spanparse.marks.origin import Origin, Path

_new = tuple.__new__
_MESSAGES: Final = ("messages",)
# A message has six places or so, of half a kilobyte each.
_MOST_KEPT: Final = 30_000


@final
class Place(dict["str | int", "Place"]):
    """Where a value stands: `origin` is that of text copied from it, `literal` that of what is written for it.

    It holds the places inside it by index or key, which may be a marked text, and makes those it is asked for.
    """

    __slots__ = ("literal", "origin")
    made: ClassVar[int] = 0
    """How many places there are in all."""

    def __init__(self, path: Path, message: int | None = None) -> None:
        self.origin: Origin = _new(Origin, (path, False, message))
        self.literal: Origin = _new(Origin, (path, True, message))

    def __missing__(self, step: str | int) -> Place:
        path, _, message = self.origin
        if isinstance(step, str):
            step = str.__str__(step)
        elif message is None and path == _MESSAGES:
            message = step
        Place.made += 1
        # Another thread may have been here meanwhile; an origin must not change while a render goes on.
        return self.setdefault(step, Place((*path, step), message))


_kept = Place(())


def request_place() -> Place:
    """The place that all of a request is below."""
    global _kept
    if Place.made > _MOST_KEPT:
        Place.made = 0
        _kept = Place(())
    return _kept
