"""Token ids of a rendered prompt in which only the template can write control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from spanparse.errors import SourceError
from spanparse.spans import Piece
from spanparse.tokens.added import Cut
from spanparse.tokens.alignment import Stretch, align
from spanparse.tokens.base import Backend


@dataclass(frozen=True, slots=True)
class Encoding:
    """Token ids with the character at which each begins, and the cuts: markers that tokenisation never looks across.

    `cut_tokens[i]` is the index in `ids` of the token of `cuts[i]`. `bos_added` is the number of tokens (0 or 1) put
    before the text. `exact`: the tokens' bytes spell the text; otherwise a normaliser changed it and the tokeniser's
    own alignment was taken where they do not.
    """

    ids: list[int]
    offsets: list[int]
    cuts: Sequence[Cut]
    cut_tokens: list[int]
    bos_added: int
    exact: bool


def encode(
    text: str, caller_text: Sequence[Piece], backend: Backend, *, template: str | None, trust_content: bool
) -> Encoding:
    """Encode `text`; `caller_text` (sorted, disjoint) is what callers wrote in it, the rest is the template's literals.

    Text is cut at the markers that stand wholly in literals, and what lies between is encoded on its own without
    special tokens: as a tokeniser does, except that it would cut at the caller's markers too. With `trust_content` it
    does, and the ids are the ordinary ones of the whole text.

    Raises `SourceError` if the tokens' bytes do not spell the text and the tokeniser cannot say how they align.
    """
    own = [Piece(0, len(text))] if trust_content else _gaps(caller_text, len(text))
    cuts = list(backend.added.cuts(text, own))
    begins_with_bos = bool(cuts) and cuts[0].outer_start == 0 and cuts[0].token.id == backend.bos
    ids = [backend.bos] if backend.add_bos and backend.bos is not None and not begins_with_bos else []
    bos_added = len(ids)
    between = _between(text, cuts)
    parts = (
        _ordinary(backend, text, between, cuts) if trust_content else _guarded(backend, text, between, cuts, template)
    )
    stretches: list[Stretch] = []
    cut_tokens = []
    for part, cut in zip(parts, [*cuts, None], strict=True):
        for stretch in part:
            stretches.append(stretch)
            ids += stretch.ids
        if cut:
            cut_tokens.append(len(ids))
            stretches.append(Stretch(cut.start, cut.end, [cut.token.id], False, True))
            ids.append(cut.token.id)
    alignment = align(text, ids[bos_added:], stretches, backend)
    return Encoding(ids, [0] * bos_added + alignment.offsets, cuts, cut_tokens, bos_added, alignment.exact)


class _Gap(NamedTuple):
    """Text between cuts; `prefix`: the tokeniser's dummy space belongs before it."""

    start: int
    end: int
    prefix: bool


def _gaps(taken: Sequence[Piece], end: int) -> Iterator[Piece]:
    at = 0
    for piece in taken:
        if piece.start > at:
            yield Piece(at, piece.start)
        at = max(at, piece.end)
    if end > at:
        yield Piece(at, end)


def _between(text: str, cuts: Iterable[Cut]) -> Iterator[_Gap]:
    """The text before each cut and after the last."""
    at, prefix = 0, True
    for cut in cuts:
        yield _Gap(at, cut.outer_start, prefix)
        at, prefix = cut.outer_end, cut.token.prefix_after
    yield _Gap(at, len(text), prefix)


def _guarded(
    backend: Backend, text: str, gaps: Iterable[_Gap], cuts: Iterable[Cut], template: str | None
) -> Iterator[Iterable[Stretch]]:
    # What the template can emit is control even where this prompt does not show it: the next one may, and then a
    # caller's copy of it in the shared prefix would change its ids.
    emitted = backend.added.cuts(template, [Piece(0, len(template))]) if template else ()
    control = backend.added.control_ids.union(cut.token.id for cut in chain(cuts, emitted))
    for gap in gaps:
        yield _plain(backend, text, gap, control) if gap.end > gap.start else ()


def _plain(backend: Backend, text: str, gap: _Gap, control: frozenset[int]) -> Iterator[Stretch]:
    """Encode a gap so that no control token comes out of it.

    Leaving special tokens out is not always enough: added tokens that are not flagged special are found regardless,
    and SentencePiece may merge its way to one. Such a token is broken up after its first character.
    """
    start, end, prefix = gap
    ids = backend.encode(text[start:end], special=False, prefix=prefix)
    if control.isdisjoint(ids) or end - start == 1:
        yield Stretch(start, end, ids, prefix, False)
        return
    forged = "|".join(re.escape(backend.added.by_id[id].text) for id in control.intersection(ids))
    matches = re.finditer(forged, text[start:end])
    breaks = [start + match.start() + 1 for match in matches if match.end() - match.start() > 1]
    # A normaliser may have made the token of something else; then halve the text until it does not.
    for begin, stop in pairwise([start, *(breaks or [(start + end) // 2]), end]):
        yield from _plain(backend, text, _Gap(begin, stop, prefix and begin == start), control)


def _ordinary(backend: Backend, text: str, gaps: Iterable[_Gap], cuts: Sequence[Cut]) -> Iterator[Iterable[Stretch]]:
    """The ids of an ordinary encoding of the whole text, dealt out to the gaps between the cuts."""
    ids = backend.encode(text, special=True)
    at = 0
    for gap, cut in zip(gaps, [*cuts, None], strict=True):
        try:
            stop = ids.index(cut.token.id, at) if cut else len(ids)
        except ValueError:
            raise SourceError(backend.name, f"it finds fewer special tokens in the text than it lists: {cut}") from None
        yield [Stretch(gap.start, gap.end, ids[at:stop], gap.prefix, False)]
        at = stop + 1
