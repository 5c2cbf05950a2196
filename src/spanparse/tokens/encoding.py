"""Token ids of a rendered prompt in which only the template can write control tokens."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from spanparse.errors import SourceError
from spanparse.shared import common_prefix, gaps, shared_ranges
from spanparse.spans import Piece
from spanparse.tokens.added import Cut
from spanparse.tokens.base import Backend


class Stretch(NamedTuple):
    """Text that begins at character `start` of the prompt, and the tokens that it became when it was encoded by itself.

    `prefix`: the tokeniser's dummy space was allowed before it. `offsets`: where each token starts, if that is known.
    """

    start: int
    text: str
    ids: list[int]
    prefix: bool
    offsets: list[int] | None = None


def align(stretch: Stretch, backend: Backend) -> list[int] | None:
    """The character of the prompt at which each token starts; None if the tokens do not spell the stretch."""
    if stretch.offsets is not None:
        return stretch.offsets
    # White space that a token swallows and a dummy space behind it spell the text between them, a character too early.
    swallows = not backend.added.swallowing.isdisjoint(stretch.ids)
    offsets = _around_added(stretch, backend) if swallows else None
    if offsets is None:
        offsets = backend.pieces.offsets(stretch.ids, stretch.text, stretch.start)
    return offsets if offsets is not None or swallows else _around_added(stretch, backend)


def align_as_told(stretch: Stretch, backend: Backend) -> list[int]:
    """The same by the tokeniser's own word, for text that a normaliser changed.

    Raises `SourceError` if it cannot tell.
    """
    told = backend.align(stretch.text, prefix=stretch.prefix)
    if told is None or len(told) != len(stretch.ids):
        raise SourceError(backend.name, f"its tokens do not spell the text from character {stretch.start} on")
    return [stretch.start + offset for offset in told]


def _around_added(stretch: Stretch, backend: Backend) -> list[int] | None:
    """Offsets where added tokens that are not control stand in the text.

    They swallow white space as markers do, and each may have a dummy space after it.
    """
    pieces, added = backend.pieces, backend.added.by_id
    start, text, ids = stretch.start, stretch.text, stretch.ids
    offsets: list[int] = []
    at = first = 0
    for index, id in enumerate(ids):
        token = added.get(id)
        if token is None:
            continue
        found = text.find(token.text, at)
        if found < 0:
            return None
        before = pieces.offsets(ids[first:index], text[at:found].rstrip(token.lstrip), start + at)
        if before is None:
            return None
        offsets += [*before, start + found]
        at, first = found + len(token.text), index + 1
        while at < len(text) and text[at] in token.rstrip:
            at += 1
    after = pieces.offsets(ids[first:], text[at:], start + at)
    return None if after is None else offsets + after


# So many characters are tokenised again without ado rather than that the vocabulary is searched for ends of words.
_FAR = 4096


@dataclass(frozen=True, slots=True)
class Encoding:
    """Token ids with the character at which each begins, and the cuts: markers that tokenisation never looks across.

    `text`, `caller_text` and `trust_content` are what was encoded, by `backend`; `control` holds the ids that callers'
    text does not yield unless it is trusted. `cut_tokens[i]` is the index in `ids` of the token of `cuts[i]`.
    `bos_added` is the number of tokens (0 or 1) put before the text. `inexact_from`: the first token whose offset is
    the tokeniser's own word, because a normaliser changed the text; None where the tokens' bytes spell all of it.
    `shared`: the characters up to which all is as in the encoding that this one began with, 0 if there was none.
    """

    text: str
    caller_text: Sequence[Piece]
    trust_content: bool
    backend: Backend
    control: frozenset[int]
    ids: list[int]
    offsets: list[int]
    cuts: list[Cut]
    cut_tokens: list[int]
    bos_added: int
    inexact_from: int | None
    shared: int

    @property
    def exact(self) -> bool:
        """Whether the tokens' bytes spell all of the text."""
        return self.inexact_from is None


def encode(
    text: str,
    caller_text: Sequence[Piece],
    backend: Backend,
    *,
    template: str | None,
    trust_content: bool,
    previous: Encoding | None = None,
) -> Encoding:
    """Encode `text`; `caller_text` (sorted, disjoint) is what callers wrote in it, the rest is the template's literals.

    Text is cut at the markers that stand wholly in literals, and what lies between is encoded on its own without
    special tokens: as a tokeniser does, except that it would cut at the caller's markers too. With `trust_content` it
    does, and the ids are the ordinary ones of the whole text.

    What the text shares with that of `previous` is not encoded again, if the same backend encoded that one; the result
    is the same without it.

    Raises `SourceError` if the tokens' bytes do not spell the text and the tokeniser cannot say how they align.
    """
    added = backend.added
    start = None
    if previous is not None and previous.backend is backend and previous.trust_content == trust_content:
        start = _resumed(previous, text, caller_text)
    start = start or _nothing()
    literals = [Piece(start.text, len(text))] if trust_content else gaps(caller_text, start.text, len(text))
    cuts = [*start.cuts, *added.cuts(text, literals, start.cuts[-1].outer_end if start.cuts else 0)]
    # What the template can emit is control even where this prompt does not show it: the next one may, and then a
    # caller's copy of it in the shared prefix would change its ids.
    control = added.control_ids.union(added.markers_in(template or ""), {cut.token.id for cut in cuts})
    if previous is not None and control != previous.control:
        start = _nothing()

    # Some templates write white space before it, and no model was trained on two of them.
    begins_with_bos = bool(cuts) and cuts[0].token.id == backend.bos and not text[: cuts[0].start].strip()
    bos = [backend.bos] if backend.add_bos and backend.bos is not None and not begins_with_bos else []
    ids, offsets = start.ids or [*bos], start.offsets or [0] * len(bos)
    cut_tokens, inexact_from = start.cut_tokens, start.inexact_from
    new_cuts = cuts[len(start.cuts) :]
    between = list(_between(text, new_cuts, start.text, start.prefix))
    if trust_content:
        encoded = _ordinary(backend, text, start, between, new_cuts)
    else:
        encoded = _guarded(backend, text, between, control)
    # All is encoded before anything is aligned: in turn, each would push the other's tables out of the cache.
    for stretches, cut in zip(encoded, [*new_cuts, None], strict=True):
        for stretch in stretches:
            proven = align(stretch, backend)
            if proven is None:
                inexact_from = len(ids) if inexact_from is None else inexact_from
                proven = align_as_told(stretch, backend)
            ids += stretch.ids
            offsets += proven
        if cut:
            cut_tokens.append(len(ids))
            ids.append(cut.token.id)
            offsets.append(cut.start)
    ends = len(bos), inexact_from, start.text
    return Encoding(text, caller_text, trust_content, backend, control, ids, offsets, cuts, cut_tokens, *ends)


class _Start(NamedTuple):
    """The beginning of an encoding that is there already, up to character `text`.

    `prefix`: the tokeniser's dummy space belongs before what follows.
    """

    text: int
    prefix: bool
    ids: list[int]
    offsets: list[int]
    cuts: list[Cut]
    cut_tokens: list[int]
    inexact_from: int | None


def _nothing() -> _Start:
    return _Start(0, True, [], [], [], [], None)


def _resumed(previous: Encoding, text: str, caller_text: Sequence[Piece]) -> _Start | None:
    """What holds for `text` too: all before the last cut that is the same in both, or else the last end of a word.

    A cut is found by its text alone, up to the length of the longest marker, and what precedes it does not depend on
    what follows.
    """
    shared = shared_ranges(previous.caller_text, caller_text, common_prefix(previous.text, text))
    limit = shared - previous.backend.added.longest
    last = bisect_right(previous.cuts, limit, key=lambda cut: cut.start) - 1
    if last < 0 or limit - previous.cuts[last].start > _FAR:
        begin = previous.cuts[last].outer_end if last >= 0 else 0
        end = _word_end(previous, begin, limit)
        if end is not None:
            tokens = bisect_left(previous.offsets, end, lo=previous.bos_added)
            return _begun(previous, end, tokens, last + 1, prefix=False)
    if last <= 0:
        return None
    return _begun(previous, previous.cuts[last].start, previous.cut_tokens[last], last, prefix=True)


def _word_end(previous: Encoding, begin: int, limit: int) -> int | None:
    word_ends = previous.backend.word_ends if limit - begin > _FAR else None
    end = word_ends.last(previous.text, begin, limit, apart=True) if word_ends else None
    if end is None:
        return None
    before = previous.ids[bisect_left(previous.offsets, end, lo=previous.bos_added) - 1]
    # An added token may swallow the white space behind it.
    return None if before in previous.backend.added.by_id else end


def _begun(previous: Encoding, text: int, tokens: int, cuts: int, *, prefix: bool) -> _Start:
    inexact = previous.inexact_from
    return _Start(
        text,
        prefix,
        previous.ids[:tokens],
        previous.offsets[:tokens],
        previous.cuts[:cuts],
        previous.cut_tokens[:cuts],
        inexact if inexact is not None and inexact < tokens else None,
    )


class _Gap(NamedTuple):
    """Text between cuts; `prefix`: the tokeniser's dummy space belongs before it."""

    start: int
    end: int
    prefix: bool


def _between(text: str, cuts: Iterable[Cut], begin: int, prefix: bool) -> Iterator[_Gap]:
    """The text before each cut and after the last, from `begin` on."""
    at = begin
    for cut in cuts:
        yield _Gap(at, max(at, cut.outer_start), prefix)
        at, prefix = cut.outer_end, cut.token.prefix_after
    yield _Gap(at, len(text), prefix)


def _guarded(backend: Backend, text: str, gaps: Sequence[_Gap], control: frozenset[int]) -> list[list[Stretch]]:
    """The gaps, encoded so that no control token comes out of them."""
    quick = [gap for gap in gaps if gap.end > gap.start and gap.prefix]
    texts, starts = [text[gap.start : gap.end] for gap in quick], [gap.start for gap in quick]
    found = backend.encode_all(texts, starts, control | backend.added.swallowing) if quick else None
    known = dict(zip(starts, found or (), strict=False))
    return [_plain(backend, text, gap, control, known.get(gap.start)) if gap.end > gap.start else [] for gap in gaps]


def _plain(
    backend: Backend,
    text: str,
    gap: _Gap,
    control: frozenset[int],
    known: tuple[list[int], list[int] | None] | None = None,
) -> list[Stretch]:
    """Encode a gap so that no control token comes out of it; `known` is what comes out if nothing is done about it.

    Leaving special tokens out is not always enough: added tokens that are not flagged special are found regardless,
    and SentencePiece may merge its way to one. Such a token is broken up after its first character.
    """
    start, end, prefix = gap
    part = text[start:end]
    ids, offsets = known or (backend.encode(part, special=False, prefix=prefix), None)
    if offsets is not None or control.isdisjoint(ids) or end - start == 1:
        return [Stretch(start, part, ids, prefix, offsets)]
    offsets = backend.pieces.offsets(ids, part, start)
    if offsets is None:
        forged = "|".join(re.escape(backend.added.by_id[id].text) for id in control.intersection(ids))
        offsets = [start + match.start() for match in re.finditer(forged, part)]
    else:
        offsets = [offset for id, offset in zip(ids, offsets, strict=True) if id in control]
    breaks = [offset + 1 for offset in offsets if start < offset + 1 < end]
    # A normaliser may have made the token of something else; then halve the text until it does not.
    edges = pairwise([start, *(breaks or [(start + end) // 2]), end])
    parts = (_Gap(begin, stop, prefix and begin == start) for begin, stop in edges)
    return [stretch for part in parts for stretch in _plain(backend, text, part, control)]


def _ordinary(
    backend: Backend, text: str, start: _Start, gaps: Iterable[_Gap], cuts: Sequence[Cut]
) -> list[list[Stretch]]:
    """The ids of an ordinary encoding of the text behind `start`, dealt out to the gaps between the cuts."""
    ids = backend.encode(text[start.text :], special=True, prefix=start.prefix)
    at = 0
    dealt = []
    for gap, cut in zip(gaps, [*cuts, None], strict=True):
        try:
            stop = ids.index(cut.token.id, at) if cut else len(ids)
        except ValueError:
            raise SourceError(backend.name, f"it finds fewer special tokens in the text than it lists: {cut}") from None
        dealt.append([Stretch(gap.start, text[gap.start : gap.end], ids[at:stop], gap.prefix)])
        at = stop + 1
    return dealt
