"""Where a list of tokens may be cut so that what is kept cannot change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from spanparse.tokens.encoding import Encoding


class Boundaries:
    """Token counts for the character offsets of one encoded text.

    `openers` are the control tokens of which it is known that where one opens a turn, control tokens open all turns;
    None if that holds for all.
    """

    def __init__(self, encoding: Encoding, openers: frozenset[int] | None = None) -> None:
        self._openers = openers
        self._text = encoding.text
        self._encoding = encoding
        self._added = encoding.backend.added
        self._starts = [cut.outer_start for cut in encoding.cuts]
        self._ends = [cut.end for cut in encoding.cuts]
        self._begun: dict[int, int] = {}
        self._searched: tuple[int, int, int | None] = (-1, 0, None)

    def begun(self, offset: int) -> int:
        """The number of tokens that begin before `offset`, an added BOS among them."""
        # Each boundary is asked for several times: as a piece's end, the next one's start and a barrier.
        count = self._begun.get(offset)
        if count is None:
            at_end = offset >= len(self._text)
            encoding = self._encoding
            count = len(encoding.ids) if at_end else bisect_left(encoding.offsets, offset, lo=encoding.bos_added)
            self._begun[offset] = count
        return count

    def safe(self, offset: int, *, any_text: bool = False) -> int:
        """The largest count k known to keep tokens[:k] as they are when the text after `offset` is replaced.

        Tokenisation never looks across a cut, so k is exact where a cut ends at `offset`, whatever text follows, and
        where one begins there, as long as what follows begins with a control token too: a template that opens a turn
        with one opens every turn so. `any_text` does not count on that. Elsewhere k is the end of the last word or cut
        before that is known to stay.
        """
        encoding, cuts = self._encoding, self._encoding.cuts
        last = bisect_right(self._ends, offset) - 1
        if last < 0 or cuts[last].outer_end < offset:
            first = bisect_left(self._starts, offset)
            if not any_text and first < len(cuts) and self._begins(first, offset):
                return encoding.cut_tokens[first]
        limit = offset
        while last >= 0 and not self._closed(last):
            limit = cuts[last].outer_start
            last -= 1
        begin, token = (cuts[last].outer_end, encoding.cut_tokens[last] + 1) if last >= 0 else (0, encoding.bos_added)
        end = self._word_end(begin, limit)
        return token if end is None else self.begun(end)

    def _word_end(self, begin: int, limit: int) -> int | None:
        """The last end of a word between two characters. What was searched before is not searched again."""
        if begin >= limit or (word_ends := self._encoding.backend.word_ends) is None:
            return None
        known_begin, known_limit, known = self._searched
        if begin != known_begin or limit < known_limit:
            known_limit, known = begin + 1, None
        found = word_ends.last(self._text, known_limit - 1, limit)
        self._searched = begin, limit, known if found is None else found
        return self._searched[2]

    def _begins(self, index: int, offset: int) -> bool:
        cut = self._encoding.cuts[index]
        if not cut.outer_start == cut.start == offset:
            return False
        if self._openers is not None and cut.token.id not in self._openers:
            return False
        # Another marker in its place might swallow the white space before it.
        swallowed = self._text[offset - 1 : offset] in self._added.swallowed_before
        return not swallowed and not self._added.may_straddle(self._text, offset, 1)

    def _closed(self, index: int) -> bool:
        """Whether the cut stays what it is whatever follows: no longer marker begins with it."""
        cut = self._encoding.cuts[index]
        return not self._added.may_straddle(self._text, cut.end, cut.end - cut.start)
