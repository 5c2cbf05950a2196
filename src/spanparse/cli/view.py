"""The rendered prompt for a person at a terminal, or in a text file without colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.cells import chop_cells
from rich.text import Text

from spanparse.cli.output import printable
from spanparse.cli.tiles import PROMPT_KINDS, Tile, tiles
from spanparse.spans import Rendering

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
