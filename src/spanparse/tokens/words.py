"""Ends of words that no tokenisation reaches across, whatever text follows them.

Between a letter, digit or sign and the space or line break after it a token always ends if no token of the vocabulary
spells the two: merges (BPE) and segmentations (Unigram) only ever make tokens. What stands before that place is then
tokenised by itself, because merges on one side do not touch the other; unless the tokeniser first splits its text by a
rule that would split the left side another way for the sake of what follows on the right. The rules of published
tokenisers that are known not to are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_WHITE: Final = " \n"

_CONTRACTIONS: Final = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_ANY_CASE: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD: Final = r"[^\r\n\p{L}\p{N}]?"

# None of these looks further than the character after its match. None can match white space behind anything else, but
# for line breaks behind signs, which it may also leave; so none takes less or more of the left side for what follows.
_ALTERNATIVES: Final = frozenset(
    {
        *_CONTRACTIONS,
        *(_ANY_CASE, r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"),
        *(rf"{_LEAD}\p{{L}}+", rf"{_LEAD}[\p{{L}}\p{{M}}]+", r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"),
        *(rf"{_LEAD}{_UPPER}*{_LOWER}+{suffix}" for suffix in ("", f"{_ANY_CASE}?")),
        *(rf"{_LEAD}{_UPPER}+{_LOWER}*{suffix}" for suffix in ("", f"{_ANY_CASE}?")),
        *(r" ?\p{L}+", r" ?\p{N}+", r"\p{N}", r"\p{N}+", r"\p{N}{1,3}", "[0-9][0-9][0-9]"),
        *(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"),
        *(r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r" ?[\p{P}\p{S}]+[\r\n]*"),
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+""",
        *(r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+", r"\s+$", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+"),
    }
)

# A run of listed letters or signs, perhaps with white space before it: local too if the list holds no white space.
_RUN: Final = re.compile(r"(?: \?|\\s\?)?\[(?!\^)((?:\\x\{\w+\}|\\p\{[LMNPS]\w?\}|\\[^\w\s]|[^\\\[\]\s])+)\]\+")


def splits_locally(pattern: str) -> bool:
    """Whether a regular expression, by whose matches a tokeniser splits text, is known to split each side by itself."""
    # What a class leaves out of the letters or digits counts as a sign, which changes nothing here.
    pattern = re.sub(r"\[(\\p\{\w+\})&&\[\^[^\]]*\]\]", r"\1", pattern)
    return all(each in _ALTERNATIVES or _is_local_run(each) for each in _alternatives(pattern))


def _is_local_run(alternative: str) -> bool:
    run = _RUN.fullmatch(alternative)
    if run is None:
        return False
    listed = re.sub(r"\\x\{(\w+)\}", lambda code: re.escape(chr(int(code[1], 16))), re.sub(r"\\p\{\w+\}", "", run[1]))
    return not re.search(f"[{listed}]", _WHITE) if listed else True


def _alternatives(pattern: str) -> list[str]:
    """What stands between the bars outside of groups and classes."""
    parts, depth, in_class = [""], 0, False
    for token in re.findall(r"\\.|.", pattern, re.DOTALL):
        in_class = token != "]" and (in_class or token == "[")
        depth += not in_class and {"(": 1, ")": -1}.get(token, 0)
        if token == "|" and not depth and not in_class:
            parts.append("")
        else:
            parts[-1] += token
    return parts


class WordEnds:
    """The word ends of a vocabulary that splits its text locally if at all; `spellings` are the bytes of its tokens.

    `normalised`: letters may become others before they are tokenised, ASCII and white space excepted.
    """

    def __init__(self, spellings: Iterable[bytes], *, normalised: bool = False) -> None:
        # Between two tokens goes a byte that no character ends with.
        text = b"\xff".join(spellings).replace("▁".encode(), b" ")
        self._normalised = normalised
        self._joined = frozenset(re.findall(rb"[^ \n][ \n]", text))

    def last(self, text: str, start: int, stop: int, *, apart: bool = False) -> int | None:
        """The last place in [start + 1, stop) where a word ends and white space begins; None if there is none.

        What stands before it is tokenised by itself; with `apart` what stands behind it is, too.
        """
        for at in range(stop - 1, start, -1):
            if text[at] in _WHITE and self._ends(text[at - 1], text[at]):
                # Some rules split line breaks off together with the signs before them.
                if apart and text[at] != " " and not text[at - 1].isalnum():
                    continue
                return at
        return None

    def _ends(self, letter: str, white: str) -> bool:
        # `▁` may stand for a space; white space of other kinds may be split by what follows.
        if letter == "▁" or letter.isspace() or not letter.isprintable():
            return False
        if self._normalised and not letter.isascii():
            return False
        return letter.encode()[-1:] + white.encode() not in self._joined
