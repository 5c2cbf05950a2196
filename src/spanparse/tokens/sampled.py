"""Keep the tokens that a model sampled where its answer is rendered again as history."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from spanparse.spans import Piece, Rendering
from spanparse.tokens.base import Backend
from spanparse.tokens.drift import common, meet
from spanparse.tokens.map import TokenBarrier, TokenMap, TokenRange
from spanparse.tokens.media import MediaRun


class _Kept(NamedTuple):
    """Evaluated tokens [first, last) in place of [begin, end) of the map."""

    first: int
    last: int
    begin: int
    end: int


def keep_sampled(evaluated: Sequence[int], rendering: Rendering, tokens: TokenMap, backend: Backend) -> TokenMap:
    """`tokens`, the map of `rendering`, with the evaluated tokens wherever they only cut the same text otherwise.

    Up to the first change of the text the result begins with `evaluated`, so that none of it is evaluated again. Added
    tokens and media are not put in: they stand where `tokens` has them or nowhere. A barrier inside kept tokens backs
    off to where they begin.
    """
    kept = list(_kept(evaluated, tokens, backend))
    return _Splice(rendering, tokens, backend).map(evaluated, kept) if kept else tokens


def _kept(evaluated: Sequence[int], tokens: TokenMap, backend: Backend) -> Iterator[_Kept]:
    """The stretches of equal text in other tokens, up to the first where the text differs."""
    at = to = 0
    added = backend.added.by_id.keys()
    while True:
        same = common(evaluated, at, tokens.ids, to)
        at, to = at + same, to + same
        place = meet(evaluated, at, tokens.ids, to, backend.pieces).place
        if place is None:
            return
        found = _Kept(at, place[0], to, place[1])
        if not added.isdisjoint([*evaluated[at : found.last], *tokens.ids[to : found.end]]):
            return
        yield found
        at, to = place


class _Splice:
    def __init__(self, rendering: Rendering, tokens: TokenMap, backend: Backend) -> None:
        self._rendering = rendering
        self._tokens = tokens
        self._pieces = backend.pieces
        self._ids: list[int] = []
        self._offsets: list[int] = []
        self._kept: Sequence[_Kept] = ()

    def map(self, evaluated: Sequence[int], kept: Sequence[_Kept]) -> TokenMap:
        tokens, self._kept = self._tokens, kept
        at = 0
        for each in kept:
            sampled = list(evaluated[each.first : each.last])
            self._ids += [*tokens.ids[at : each.begin], *sampled]
            self._offsets += [*tokens.offsets[at : each.begin], *self._starts(sampled, each)]
            at = each.end
        self._ids += tokens.ids[at:]
        self._offsets += tokens.offsets[at:]
        spans = [message.pieces for message in self._rendering.messages]
        prompt, old_prompt = self._rendering.generation_prompt, tokens.generation_prompt
        return replace(
            tokens,
            ids=self._ids,
            offsets=self._offsets,
            message_ranges=tuple(
                replace(message, pieces=tuple(map(self._range, pieces, message.pieces)))
                for pieces, message in zip(spans, tokens.message_ranges, strict=True)
            ),
            generation_prompt=self._range(prompt, old_prompt) if prompt and old_prompt else None,
            barriers=tuple(map(self._barrier, tokens.barriers)),
            system_end=None if tokens.system_end is None else self._barrier(tokens.system_end),
            tool_ends=tuple(map(self._barrier, tokens.tool_ends)),
            media=tuple(map(self._run, tokens.media)),
        )

    def _starts(self, sampled: list[int], kept: _Kept) -> Iterator[int]:
        """The character at which each token begins, counted by the code points that begin in those before."""
        begun = self._tokens.offsets[kept.begin]
        if _continues(self._pieces[sampled[0]]):
            begun += 1
        for id in sampled:
            piece = self._pieces[id]
            yield begun - _continues(piece)
            begun += sum(byte & 0xC0 != 0x80 for byte in piece)

    def _moved(self, token: int) -> int:
        """By how much the tokens from `token` on are further back than before."""
        number = bisect_right(self._kept, token, key=lambda kept: kept.end)
        return sum(kept.last - kept.first - kept.end + kept.begin for kept in self._kept[:number])

    def _begun(self, offset: int) -> int:
        """The number of tokens that begin before a character."""
        if offset >= len(self._rendering.text):
            return len(self._ids)
        return bisect_left(self._offsets, offset, lo=self._tokens.bos_added)

    def _run(self, old: MediaRun) -> MediaRun:
        moved = self._moved(old.begin)
        return replace(old, begin=old.begin + moved, position=old.position + moved)

    def _range(self, piece: Piece, old: TokenRange) -> TokenRange:
        begin, end = self._begun(piece.start), self._begun(piece.end)
        return TokenRange(begin, end, _position(begin, old.begin, old.pos_begin), _position(end, old.end, old.pos_end))

    def _barrier(self, old: TokenBarrier) -> TokenBarrier:
        inside = next((kept for kept in self._kept if kept.begin < old.token < kept.end), None)
        token = old.token if inside is None else inside.begin
        token += self._moved(token)
        position = _position(token, old.token, old.position)
        return old._replace(token=token, position=position, backed_off=self._begun(old.offset) - token)


def _position(token: int, old: int, old_position: int | None) -> int | None:
    """Media before a place take as many positions less than tokens as they did."""
    return None if old_position is None else token - (old - old_position)


def _continues(piece: bytes) -> bool:
    """Whether a token begins inside a code point."""
    return bool(piece) and piece[0] & 0xC0 == 0x80
