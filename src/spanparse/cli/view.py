"""The rendered prompt, cut into the smallest stretches that have a name, for a person at a terminal or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import chop_cells
from rich.text import Text

from spanparse.cli.output import printable
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


ROLE_COLOURS: Final = {
    "system": "yellow",
    "developer": "yellow",
    "user": "green",
    "assistant": "cyan",
    "tool": "magenta",
    "preamble": "bright_black",
}
# The template's own words recede, so that what came from the caller stands out.
_TEMPLATE_KINDS: Final = frozenset({"header", "trailer", "delimiter", "bos", "default_text", *PROMPT_KINDS.values()})
_NARROWEST: Final = 20


def prompt_view(rendering: Rendering, width: int | None) -> Text:
    """The whole text, a row for every named stretch; ⏎ stands for a newline of the text.

    Lines are folded at `width` cells, None to leave them as long as they are.
    """
    found = tiles(rendering)
    kind_width = max((len(tile.kind) for tile in found), default=0)
    view = Text()
    last = None
    for tile in found:
        owner = (tile.owner, tile.message)
        label = owner_label(tile) if owner != last else ""
        last = owner
        gutter = f"{label:<14} {tile.kind:<{kind_width}} "
        colour = ROLE_COLOURS.get(tile.owner, "white")
        style = f"dim {colour}" if tile.kind in _TEMPLATE_KINDS else colour
        room = None if width is None else max(_NARROWEST, width - len(gutter) - 2)
        for line, ended in _rows(rendering.text[tile.start : tile.end], room):
            view.append(gutter, style=f"bold {colour}")
            view.append("│", style="dim")
            view.append(line, style=style)
            view.append("⏎\n" if ended else "\n", style="dim")
            gutter = " " * len(gutter)
    return view


def owner_label(tile: Tile) -> str:
    """The message's index and role, or what owns the tile instead of a message."""
    return tile.owner if tile.message is None else f"{tile.message:>3} {printable(tile.owner)}"


def _rows(text: str, width: int | None) -> Iterator[tuple[str, bool]]:
    """The rows that show `text`, and whether a newline of the text ends each; only \\n ends a line."""
    *lines, rest = text.split("\n")
    for number, line in enumerate([*lines, rest]):
        ended = number < len(lines)
        if not line and not ended:
            continue
        *folded, last = [printable(line)] if width is None else chop_cells(printable(line), width) or [""]
        yield from ((row, False) for row in folded)
        yield last, ended
