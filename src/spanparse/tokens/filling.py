"""Placeholders of media as tokens of their own, the media put in their place, and where positions go on behind them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, cast, final

from spanparse.errors import ConversationError
from spanparse.spans import Rendering
from spanparse.tokens.added import AddedToken, AddedTokens
from spanparse.tokens.base import Backend
from spanparse.tokens.map import TokenBarrier, TokenMap, TokenRange
from spanparse.tokens.media import Chunk, Insertion, MediaRun, media_parts, text_chunk
from spanparse.tokens.pieces import Pieces
from spanparse.tokens.words import WordEnds

HOLE: Final = -1
"""The id of the first placeholder; the others follow downwards. No vocabulary has negative ids."""


@final
class HoledBackend:
    """`backend` with an added token for each text of `placeholders`.

    Text after one begins anew, dummy space and all, as each stretch of text between media does in llama.cpp.
    """

    def __init__(self, backend: Backend, placeholders: Iterable[str]) -> None:
        self._backend = backend
        self._ids = {text: HOLE - number for number, text in enumerate(sorted(placeholders))}
        self._texts = {id: text for text, id in self._ids.items()}
        self._pattern = re.compile("|".join(map(re.escape, sorted(self._ids, key=len, reverse=True))))
        self.name = backend.name
        self.bos = backend.bos
        self.add_bos = backend.add_bos
        self.eos = backend.eos
        holes = (AddedToken(text, id, special=True) for text, id in self._ids.items())
        self.added = AddedTokens([*backend.added.values(), *holes])
        self.pieces = Pieces(self._piece)

    @property
    def word_ends(self) -> WordEnds | None:
        return self._backend.word_ends

    def encode(self, text: str, *, special: bool, prefix: bool = True) -> list[int]:
        if not special:
            return self._backend.encode(text, special=False, prefix=prefix)
        ids: list[int] = []
        at = 0
        for match in self._pattern.finditer(text):
            if match.start() > at:
                ids += self._backend.encode(text[at : match.start()], special=True, prefix=prefix)
            ids.append(self._ids[match.group()])
            at, prefix = match.end(), True
        if at < len(text) or not ids:
            ids += self._backend.encode(text[at:], special=True, prefix=prefix)
        return ids

    def encode_all(
        self, texts: Sequence[str], starts: Sequence[int], control: frozenset[int]
    ) -> Sequence[tuple[list[int], list[int] | None]] | None:
        vocabulary = frozenset(id for id in control if id not in self._texts)
        return self._backend.encode_all(texts, starts, vocabulary)

    def ordinary(self, id: int) -> list[int]:
        """The ids of the text that a negative id stands for."""
        return self._backend.encode(self._texts[id], special=True)

    def align(self, text: str, *, prefix: bool = True) -> Sequence[int] | None:
        return self._backend.align(text, prefix=prefix)

    def _piece(self, id: int) -> bytes:
        text = self._texts.get(id)
        return self._backend.pieces[id] if text is None else text.encode()


def with_holes(backend: Backend, placeholders: frozenset[str]) -> HoledBackend:
    """The same backend for the same placeholders, as long as few others are asked for in between."""
    return _with_holes(cast(Hashable, backend), placeholders)


# A template shows its media in few ways, and a backend's added tokens may be thousands.
@lru_cache(maxsize=4)
def _with_holes(backend: Hashable, placeholders: frozenset[str]) -> HoledBackend:
    return HoledBackend(cast(Backend, backend), placeholders)


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
