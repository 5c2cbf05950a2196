"""Media in a token list: what an image or a recording becomes, and the runs of tokens that stand for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import cycle, islice
from typing import NamedTuple

from spanparse.spans import Part, Rendering


class Chunk(NamedTuple):
    """A stretch of tokens that a media part becomes: text that the runtime puts there, or the media themselves.

    `n_pos`: the memory positions that the tokens take, as many as tokens unless positions are two-dimensional (M-RoPE).
    """

    ids: tuple[int, ...]
    n_pos: int
    is_media: bool


def text_chunk(ids: Sequence[int]) -> Chunk:
    """Tokens of text around or between media."""
    return Chunk(tuple(ids), len(ids), False)


def media_chunk(id: str, number: int, n_tokens: int, n_pos: int) -> Chunk:
    """Chunk `number` of the media with identity `id`, as ids that no vocabulary has.

    All are negative and follow from the arguments, 31 bits each and eight different ones in turn, so lists of tokens
    are equal where the media in them are, and else differ from the first token of the media on.
    """
    digest = blake2b(f"{id} {number} {n_tokens} {n_pos}".encode(), digest_size=32).digest()
    words = (int.from_bytes(digest[at : at + 4], "little") for at in range(0, 32, 4))
    ids = islice(cycle([-2 - word % (2**31 - 1) for word in words]), n_tokens)
    return Chunk(tuple(ids), n_pos, True)


@dataclass(frozen=True, slots=True)
class Expansion:
    """What one media part becomes.

    `id` identifies its decoded content. `exact`: the runtime said so; otherwise the numbers are an estimate and `rule`
    tells which.
    """

    id: str
    chunks: tuple[Chunk, ...] = field(repr=False)
    exact: bool
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Insertion:
    """An expansion in place of characters [start, end) of the rendering.

    `part` is the index of the media part in its message's content, `index` its number among the media of the message.
    """

    start: int
    end: int
    message: int
    part: int
    index: int
    expansion: Expansion


@dataclass(frozen=True, slots=True)
class MediaRun:
    """Tokens [begin, begin + n_tokens) that stand for one chunk of media, and their `n_pos` memory positions.

    They begin at position `position`. No state can be saved between them. `message`, `part` and `index` are those of
    `Insertion`, `id`, `exact` and `rule` those of `Expansion`.
    """

    message: int
    part: int
    index: int
    begin: int
    n_tokens: int
    position: int
    n_pos: int
    id: str
    exact: bool
    rule: str | None


def media_parts(rendering: Rendering) -> Iterator[tuple[int, Part]]:
    """The message and part of everything that the template shows for media, in the order of messages."""
    for message in rendering.messages:
        for part in message.parts:
            # Of a long prompt's thousands of parts few are either.
            if part.kind == "media" or part.children:
                yield from ((message.index, found) for found in _flat((part,)) if found.kind == "media")


def _flat(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if part.children:
            yield from _flat(part.children)
