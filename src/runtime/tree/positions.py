"""Where tokens stand in a memory: media may take fewer positions than tokens."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple, Self, final


@final
class MediaSpan(NamedTuple):
    """Tokens [begin, end) that stand for media, from `position` on; the token after them stands at `after`.

    `last`: where the memory has the last of them. With M-RoPE it has all of an image at the position of the first.
    """

    begin: int
    end: int
    position: int
    after: int
    last: int


@final
@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of the tokens of a sequence, one each but for `media`, ascending."""

    media: tuple[MediaSpan, ...] = ()

    def after(self, length: int) -> int:
        """Where the token after the first `length` stands; they must not end inside media."""
        index = bisect_right(self.media, length, key=_end) - 1
        return length if index < 0 else self.media[index].after + length - self.media[index].end

    def last(self, length: int) -> int:
        """The greatest position in a memory of the first `length` tokens, -1 for none of them."""
        index = bisect_right(self.media, length, key=_end) - 1
        if index >= 0 and self.media[index].end == length:
            return self.media[index].last
        return self.after(length) - 1

    def whole(self, length: int) -> int:
        """The most of the first `length` tokens that do not end inside media."""
        return next((span.begin for span in self.media if span.begin < length < span.end), length)

    def with_media(self, begin: int, end: int, n_pos: int, last: int) -> Self:
        """The same with media at the end, which take `n_pos` positions."""
        position = self.after(begin)
        return type(self)((*self.media, MediaSpan(begin, end, position, position + n_pos, last)))

    def up_to(self, length: int) -> Self:
        """Those of the first `length` tokens alone."""
        return type(self)(self.media[: bisect_right(self.media, length, key=_end)])


def _end(span: MediaSpan) -> int:
    return span.end
