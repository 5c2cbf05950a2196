"""Spans and tokens as tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from spanparse.cli.inspect_json import OWNERS
from spanparse.cli.output import printable
from spanparse.cli.view import ROLE_COLOURS, tiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from spanparse.ownership.owners import Decision
    from spanparse.spans import Part, Rendering
    from spanparse.tokens import TokenMap

# Every table of ours can be read at this width.
_NARROWEST: Final = 80
_MOST_SHOWN: Final = 60


def new_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table of our look; the columns in `right` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def show_table(screen: Console, table: Table) -> None:
    """Prints a table. A terminal too narrow for it wraps its rows, because squeezed columns would lose figures."""
    wanted = Measurement.get(screen, screen.options.update(max_width=_NARROWEST), table).maximum
    if screen.width < wanted:
        table.width = wanted
    screen.print(table, crop=False)


def cell(text: str) -> Text:
    """Foreign text in a table: neither markup nor control characters in it act."""
    return Text(printable(text))


def span_table(rendering: Rendering, token_map: TokenMap | None) -> Table:
    """A row for every message and part; the tokens of a row are those that begin in its characters."""
    return _SpanTable(token_map).filled(rendering)


def rule_table(rendering: Rendering, decisions: Sequence[Decision]) -> Table:
    """A row for every stretch of the template's own text, with the rule that gave it to its owner."""
    table = new_table("owner", "characters", "rule", "text", right=("characters",))
    for start, end, owner, rule in decisions:
        shown = repr(rendering.text[start:end])
        shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
        table.add_row(str(OWNERS.get(owner, owner)), f"{start}–{end}", rule, cell(shown))
    return table


class _SpanTable:
    def __init__(self, token_map: TokenMap | None) -> None:
        self._offsets = None if token_map is None else token_map.offsets
        columns = ("#", "role", "part", "characters", "tokens", "exact?", "notes")
        self._table = new_table(*columns, right=("#", "characters", "tokens"))

    def filled(self, rendering: Rendering) -> Table:
        preamble = rendering.preamble
        if preamble.end > preamble.start:
            self._row(["", "preamble", ""], preamble.start, preamble.end, ["", ""], ROLE_COLOURS["preamble"])
            self._parts(preamble.parts, 0, "dim")
        for message in rendering.messages:
            colour = ROLE_COLOURS.get(message.role, "white")
            head = [str(message.index), message.role, ""]
            tail = ["exact" if message.exact else f"inexact: {message.reason}", ", ".join(map(str, message.notes))]
            if not message.pieces:
                self._add([*head, "–", "–", *tail], colour)
            for piece in message.pieces:
                self._row(head, *piece, tail, colour)
                head, tail = [""] * 3, [""] * 2
            self._parts(message.parts, 0, f"dim {colour}")
        if rendering.generation_prompt is not None:
            head = ["", "assistant", "generation prompt"]
            self._row(head, *rendering.generation_prompt, ["", ""], ROLE_COLOURS["assistant"])
            self._parts(rendering.generation_parts, 0, f"dim {ROLE_COLOURS['assistant']}")
        return self._table

    def _parts(self, parts: Sequence[Part], depth: int, style: str) -> None:
        for part in parts:
            number = "" if part.index is None else f" {part.index}"
            self._row(["", "", f"{'  ' * depth}{part.kind}{number}"], part.start, part.end, ["", ""], style)
            self._parts(part.children, depth + 1, style)

    def _row(self, head: list[str], start: int, end: int, tail: list[str], style: str) -> None:
        tokens = "–"
        if self._offsets is not None:
            tokens = f"{bisect_left(self._offsets, start)}–{bisect_left(self._offsets, end)}"
        self._add([*head, f"{start}–{end}", tokens, *tail], style)

    def _add(self, cells: list[str], style: str) -> None:
        self._table.add_row(*map(cell, cells), style=style)


def token_table(rendering: Rendering, token_map: TokenMap) -> Table:
    """A row for every token: number, id, what it spells, and whose it is. Tokens of media share one.

    There is a gap wherever the tokens before it are safe to keep: at a barrier, or as far before it as it backs off.
    """
    columns = ("token", "id", "characters", "piece", "#", "role", "part")
    table = new_table(*columns, right=("token", "id", "characters", "#"))
    found = tiles(rendering)
    starts = [tile.start for tile in found]
    runs = {run.begin: run for run in token_map.media}
    gaps = {barrier.token for barrier in token_map.barriers}
    media_end = 0
    bounds = pairwise([*token_map.offsets, len(rendering.text)])
    tokens = zip(token_map.ids, token_map.pieces, bounds, strict=True)
    for number, (token, piece, (start, end)) in enumerate(tokens):
        if number < media_end:
            continue
        if number in gaps:
            table.add_section()
        tile = found[max(0, bisect_right(starts, start) - 1)]
        index = "" if tile.message is None else str(tile.message)
        if (run := runs.get(number)) is not None:
            media_end = number + run.n_tokens
            place = (f"{number}–{media_end}", "", f"{start}–{end}")
            shown = f"{'' if run.exact else 'about '}{run.n_tokens} tokens, {run.n_pos} positions"
        else:
            place = (str(number), str(token), f"{start}–{end}")
            shown = piece.decode("utf-8", "backslashreplace").replace("\n", "⏎").replace(" ", "␣")
        cells = (*place, shown, index, tile.owner, tile.kind)
        table.add_row(*map(cell, cells), style=ROLE_COLOURS.get(tile.owner, "white"))
    return table
