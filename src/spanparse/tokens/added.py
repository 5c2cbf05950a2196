"""A vocabulary's added tokens: the ones a tokeniser finds by their text, before any merging."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from spanparse.shared import common_prefix
from spanparse.spans import Piece

# An added token that reads as markup: a name inside brackets, bars or the like. Vocabularies also add runs of spaces
# and line breaks, single letters (DeepSeek LLM: `ö`) and plain words; those are text whoever wrote them.
_MARKUP = re.compile(r"[^\w\s].*\w.*[^\w\s]", re.DOTALL)

# What nobody writes by accident, and what templates build from roles (`'<|' + role + '|>'`). llama.cpp's converter
# takes added tokens of these shapes for control tokens too where the original does not flag them (DeepSeek V3's
# `<｜User｜>`).
_BARRED = re.compile(r"<\|.+\|>|<｜.+｜>", re.DOTALL)


# The same in a template's source, and where it is put together there.
_WRITTEN = re.compile(r"<[|｜][\w▁./-]+[|｜]>")
_BUILT = re.compile(r"""<[|｜]\s*(?:['"]|\{\{)""")


class AddedToken(NamedTuple):
    """A token that is found by its text.

    `special`: the tokeniser finds it only in text that is encoded with special tokens. `lstrip` and `rstrip` hold the
    characters that it swallows before and after itself, "" for none: they belong to it and to no other token.
    `prefix_after`: text right after it gets the tokeniser's dummy space, if there is one, as the start of a prompt
    does.
    """

    text: str
    id: int
    special: bool
    lstrip: str = ""
    rstrip: str = ""
    prefix_after: bool = True

    @property
    def is_marker(self) -> bool:
        """Whether a template can use it to mark structure: it is special or reads as markup."""
        return self.special or _MARKUP.fullmatch(self.text) is not None

    @property
    def is_control(self) -> bool:
        """Whether it is a control token in every template: it is special or shaped like one."""
        return self.special or _BARRED.fullmatch(self.text) is not None


class Cut(NamedTuple):
    """A marker found in a text; offsets are characters.

    The marker's own text is [start, end); with what it swallows it takes [outer_start, outer_end).
    """

    outer_start: int
    start: int
    end: int
    outer_end: int
    token: AddedToken


class AddedTokens(Mapping[str, AddedToken]):
    """All added tokens of a vocabulary, by text; also `by_id`.

    `control_ids` are those of the control tokens whatever the template, `swallowed_before` the characters that some
    marker swallows before itself, `swallowing` the ids of the tokens that swallow what stands behind them.
    """

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        by_text = {token.text: token for token in tokens if token.text}
        self._by_text = MappingProxyType(by_text)
        self._markers = {text: token for text, token in by_text.items() if token.is_marker}
        self.by_id = MappingProxyType({token.id: token for token in by_text.values()})
        self.control_ids = frozenset(token.id for token in self._markers.values() if token.is_control)
        self.swallowing = frozenset(token.id for token in by_text.values() if token.rstrip)
        self.swallowed_before = frozenset(letter for token in self._markers.values() for letter in token.lstrip)

    def __getitem__(self, text: str) -> AddedToken:
        return self._by_text[text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_text)

    def __len__(self) -> int:
        return len(self._by_text)

    def cuts(self, text: str, within: Iterable[Piece], taken: int = 0) -> Iterator[Cut]:
        """The markers that lie wholly inside one of the ranges `within` (sorted, disjoint), from left to right.

        Of markers that begin together it is the longest. What they swallow may reach beyond the range, as it does in
        the tokeniser, but not before `taken`.
        """
        if not self._markers:
            return
        for match in chain.from_iterable(self._pattern.finditer(text, start, end) for start, end in within):
            token = self._markers[match.group()]
            outer_start, outer_end = start, end = match.span()
            while outer_start > taken and text[outer_start - 1] in token.lstrip:
                outer_start -= 1
            while outer_end < len(text) and text[outer_end] in token.rstrip:
                outer_end += 1
            yield Cut(outer_start, start, end, outer_end, token)
            taken = outer_end

    def markers_in(self, text: str) -> Iterator[int]:
        """The ids of the markers in `text`."""
        return (cut.token.id for cut in self.cuts(text, [Piece(0, len(text))]))

    def fit(self, template: str) -> bool:
        """Whether all that reads as a control token in a template's source is one here.

        False also if the template puts some together (`'<|' + role + '|>'`).
        """
        return not _BUILT.search(template) and all(text in self._by_text for text in _WRITTEN.findall(template))

    def may_straddle(self, text: str, offset: int, shortest: int) -> bool:
        """Whether some text after `offset` could complete a marker that begins `shortest` characters before it."""
        if text[offset - 1 : offset] not in self._prefix_ends:
            return False
        return any(text[offset - n : offset] in self._prefixes for n in range(shortest, min(self.longest, offset + 1)))

    @cached_property
    def longest(self) -> int:
        """The length of the longest marker in characters."""
        return max(map(len, self._markers), default=0)

    @cached_property
    def _prefixes(self) -> frozenset[str]:
        return frozenset(text[:n] for text in self._markers for n in range(1, len(text)))

    @cached_property
    def _prefix_ends(self) -> frozenset[str]:
        return frozenset(prefix[-1] for prefix in self._prefixes)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(_trie_pattern(sorted(self._markers)))


def _trie_pattern(words: Collection[str]) -> str:
    """A regular expression for the longest of `words`; a plain alternation would try thousands at every `<`."""
    branches: dict[str, list[str]] = {}
    for word in words:
        if word:
            branches.setdefault(word[0], []).append(word)
    pattern = "|".join(map(_branch_pattern, branches.values()))
    if "" in words and branches:
        return f"(?:{pattern})?"
    return f"(?:{pattern})" if len(branches) > 1 else pattern


def _branch_pattern(words: list[str]) -> str:
    """The same for words that begin alike, which is taken in one step: a word may be longer than recursion is deep."""
    shared = common_prefix(min(words), max(words))
    return re.escape(words[0][:shared]) + _trie_pattern([word[shared:] for word in words])
