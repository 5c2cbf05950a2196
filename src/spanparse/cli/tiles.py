"""The rendered prompt cut into the smallest stretches that have a name, for people to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from spanparse.spans import Part, Rendering

PROMPT_KINDS: Final = {"header": "generation prompt", "reasoning": "prefilled reasoning"}
"""What the parts of the generation prompt are called instead of their kinds."""


class Tile(NamedTuple):
    """The characters [start, end) of the text, all of one owner and one kind.

    `message` is None for the preamble and the generation prompt. `kind` is a part's kind, led by that of the part it is
    in (`tool_call arguments`).
    """

    owner: str
    message: int | None
    kind: str
    start: int
    end: int


def tiles(rendering: Rendering) -> list[Tile]:
    """All tiles, in the order of the text; together they are the text."""
    preamble = rendering.preamble
    leaves = _leaves(preamble.parts, preamble.start, preamble.end, "preamble")
    found = [Tile("preamble", None, *leaf) for leaf in leaves]
    for message in rendering.messages:
        for piece in message.pieces:
            inside = [part for part in message.parts if piece.start <= part.start < piece.end]
            found += [Tile(message.role, message.index, *leaf) for leaf in _leaves(inside, piece.start, piece.end, "")]
    if rendering.generation_prompt is not None:
        found += [
            Tile("assistant", None, PROMPT_KINDS.get(part.kind, part.kind), part.start, part.end)
            for part in rendering.generation_parts
        ]
    return sorted(found, key=lambda tile: tile.start)


def _leaves(parts: Sequence[Part], start: int, end: int, kind: str) -> Iterator[tuple[str, int, int]]:
    """The parts without children, and what lies between them under the name of the part around."""
    at = start
    for part in sorted(parts, key=lambda part: (part.start, part.end)):
        if part.start == part.end:
            continue
        if at < part.start:
            yield kind, at, part.start
        own = f"{kind} {part.kind}" if kind and kind != "preamble" else part.kind
        if part.children:
            yield from _leaves(part.children, part.start, part.end, own)
        else:
            yield own, part.start, part.end
        at = part.end
    if at < end:
        yield kind, at, end
