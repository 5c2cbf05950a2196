"""Media put in place of their placeholders in a token list, and where positions go on behind them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from spanparse.errors import ConversationError
from spanparse.spans import Rendering
from spanparse.tokens.holes import HoledBackend
from spanparse.tokens.map import TokenBarrier, TokenMap, TokenRange
from spanparse.tokens.media import Chunk, Insertion, MediaRun, media_parts, text_chunk


def fill(mapped: TokenMap, rendering: Rendering, media: Sequence[Insertion], holed: HoledBackend) -> TokenMap:
    """`mapped`, which `holed` made of `rendering`, with each placeholder's token replaced by what the media become.

    Raises `ConversationError` if a placeholder was not found because it is part of a longer token.
    """
    waiting = {insertion.start: insertion for insertion in media}
    holes = [index for index, id in enumerate(mapped.ids) if id < 0]
    found = [waiting.pop(mapped.offsets[index], None) for index in holes]
    for lost in waiting.values():
        where = f"messages[{lost.message}].content[{lost.part}]"
        raise ConversationError(where, "its placeholder is part of a longer token of the vocabulary", lost.message)
    chunks = [
        # The template also writes the placeholder where no media stand.
        (text_chunk(holed.ordinary(mapped.ids[index])),) if insertion is None else insertion.expansion.chunks
        for index, insertion in zip(holes, found, strict=True)
    ]
    expanded = {(insertion.message, insertion.index) for insertion in media}
    unknown = [part.start for message, part in media_parts(rendering) if (message, part.index) not in expanded]
    known = bisect_left(mapped.offsets, min(unknown)) if unknown else len(mapped.ids)
    layout = _Layout(holes, chunks, known)
    generation_prompt, end = mapped.generation_prompt, mapped.system_end
    return replace(
        mapped,
        ids=layout.fill(mapped.ids, [[id for chunk in each for id in chunk.ids] for each in chunks]),
        offsets=layout.fill(
            mapped.offsets,
            [[mapped.offsets[at]] * sum(len(c.ids) for c in each) for at, each in zip(holes, chunks, strict=True)],
        ),
        preamble=layout.range(mapped.preamble),
        message_ranges=tuple(
            replace(message, pieces=tuple(map(layout.range, message.pieces))) for message in mapped.message_ranges
        ),
        generation_prompt=None if generation_prompt is None else layout.range(generation_prompt),
        barriers=tuple(map(layout.barrier, mapped.barriers)),
        system_end=None if end is None else layout.barrier(end),
        tool_ends=tuple(map(layout.barrier, mapped.tool_ends)),
        media=tuple(_runs(layout, holes, found)),
        media_known=not unknown,
    )


class _Layout:
    """Where tokens go once each of `holes`, ascending indices in a list of tokens, is filled with its chunks.

    `known`: the tokens before which positions are known.
    """

    def __init__(self, holes: Sequence[int], chunks: Sequence[Sequence[Chunk]], known: int) -> None:
        self._holes = holes
        self._known = known
        self._grown = list(accumulate((sum(len(chunk.ids) for chunk in each) - 1 for each in chunks), initial=0))
        self._moved = list(accumulate((sum(chunk.n_pos for chunk in each) - 1 for each in chunks), initial=0))

    def token(self, index: int) -> int:
        """The index of a token, or of a place between two, after the holes before it were filled."""
        return index + self._grown[bisect_left(self._holes, index)]

    def position(self, index: int) -> int:
        """The memory position there."""
        return index + self._moved[bisect_left(self._holes, index)]

    def fill(self, values: list[int], inserted: Sequence[list[int]]) -> list[int]:
        """`values` with each hole replaced."""
        filled: list[int] = []
        stretches = pairwise([-1, *self._holes, len(values)])
        for (begin, end), new in zip(stretches, [*inserted, []], strict=True):
            filled += values[begin + 1 : end]
            filled += new
        return filled

    def range(self, tokens: TokenRange) -> TokenRange:
        begin, end = tokens.begin, tokens.end
        return tokens._replace(
            begin=self.token(begin),
            end=self.token(end),
            pos_begin=self._position(begin),
            pos_end=self._position(end),
        )

    def barrier(self, barrier: TokenBarrier) -> TokenBarrier:
        token = self.token(barrier.token)
        begun = self.token(barrier.token + barrier.backed_off)
        return barrier._replace(token=token, position=self._position(barrier.token), backed_off=begun - token)

    def _position(self, index: int) -> int | None:
        return self.position(index) if index <= self._known else None


def _runs(layout: _Layout, holes: Sequence[int], found: Sequence[Insertion | None]) -> Iterator[MediaRun]:
    for index, insertion in zip(holes, found, strict=True):
        if insertion is None:
            continue
        expansion = insertion.expansion
        begin, position = layout.token(index), layout.position(index)
        for chunk in expansion.chunks:
            if chunk.is_media:
                place = insertion.message, insertion.part, insertion.index, begin, len(chunk.ids), position, chunk.n_pos
                yield MediaRun(*place, expansion.id, expansion.exact, expansion.rule)
            begin, position = begin + len(chunk.ids), position + chunk.n_pos
