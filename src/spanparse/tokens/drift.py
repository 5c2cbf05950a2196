"""Drift: a model's own answer, rendered again as history, becomes other tokens than the ones it sampled.

A model may spell a word in other tokens than the tokeniser would. The text is the same, the tokens are not, and
whatever was evaluated after them is lost for the next prompt, unless the sampled tokens are kept (`keep_sampled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spanparse.spans import Part, Rendering
from spanparse.tokens.base import Backend
from spanparse.tokens.map import TokenMap
from spanparse.tokens.pieces import Pieces


class DriftToken(NamedTuple):
    """A token on one side of a drift and the bytes it spells."""

    id: int
    piece: bytes


@dataclass(frozen=True, slots=True)
class Drift:
    """Where evaluated tokens and those of a rendering part, at index `token` of both.

    `evaluated` and `rendered` are the tokens there, `rendered` None where the prompt ends. `where` is the message and
    field that the rendered token is from, such as `messages[3].content`, the message alone for the template's text.
    `same_text`: both sides go on with the same text, cut into other tokens; otherwise the text was changed. `length`:
    how many evaluated tokens it takes until both stand at the same place in the text again, None if they never do.
    """

    token: int
    evaluated: DriftToken
    rendered: DriftToken | None
    where: str | None
    same_text: bool
    length: int | None

    def __str__(self) -> str:
        what = "the same text in other tokens" if self.same_text else "another text"
        now = "the prompt ends there" if self.rendered is None else f"rendered {_shown(self.rendered)}"
        return f"token {self.token}, {self.where or 'template'}: evaluated {_shown(self.evaluated)}, {now}: {what}"


def find_drift(evaluated: Sequence[int], rendering: Rendering, tokens: TokenMap, backend: Backend) -> Drift | None:
    """The first difference between tokens that were evaluated and those of `rendering`, of which `tokens` is the map.

    `evaluated` is what the runtime's memory stands for: an earlier prompt and the answer sampled after it. None if the
    prompt begins with all of it. `backend` is the tokeniser of both.
    """
    at = common(evaluated, 0, tokens.ids, 0)
    if at == len(evaluated):
        return None
    meeting = meet(evaluated, at, tokens.ids, at, backend.pieces)
    return Drift(
        token=at,
        evaluated=_token(evaluated[at], backend.pieces),
        rendered=None if at == tokens.count else _token(tokens.ids[at], backend.pieces),
        where=field_at(rendering, tokens, at),
        same_text=meeting.same_text,
        length=None if meeting.place is None else meeting.place[0] - at,
    )


class Meeting(NamedTuple):
    """`place`: the indices in both lists, behind the tokens that parted, where both stand at the same byte again.

    None if nowhere. `same_text`: no byte was different up to there, or to the end of either list.
    """

    place: tuple[int, int] | None
    same_text: bool


def common(one: Sequence[int], i: int, other: Sequence[int], j: int) -> int:
    """How many ids are the same from `one[i]` and `other[j]` on."""
    most = min(len(one) - i, len(other) - j)
    return next((n for n in range(most) if one[i + n] != other[j + n]), most)


def meet(one: Sequence[int], i: int, other: Sequence[int], j: int, pieces: Pieces) -> Meeting:
    """Where two lists that part at `one[i]` and `other[j]` have spelled the same text again. Media spell nothing."""
    at, to = i, j
    ahead, behind = b"", b""
    while True:
        # Whichever has spelled less goes on; `ahead` is what `one` has spelled beyond `other`.
        if at == i or (to > j and len(ahead) < len(behind)):
            if at == len(one) or one[at] < 0:
                return Meeting(None, at == len(one))
            ahead, at = ahead + pieces[one[at]], at + 1
        else:
            if to == len(other) or other[to] < 0:
                return Meeting(None, to == len(other))
            behind, to = behind + pieces[other[to]], to + 1
        shared = min(len(ahead), len(behind))
        if ahead[:shared] != behind[:shared]:
            return Meeting(None, False)
        ahead, behind = ahead[shared:], behind[shared:]
        if at > i and to > j and not ahead and not behind:
            return Meeting((at, to), True)


def _token(id: int, pieces: Pieces) -> DriftToken:
    return DriftToken(id, b"" if id < 0 else pieces[id])


def _shown(token: DriftToken) -> str:
    return "media" if token.id < 0 else f"{token.id} {token.piece.decode('utf-8', 'replace')!r}"


def field_at(rendering: Rendering, tokens: TokenMap, token: int) -> str | None:
    """The field that token number `token` was rendered from, such as `messages[3].content`.

    The message alone where the text is the template's own, `tools` for the tools block; None outside all messages.
    """
    if token >= len(tokens.offsets):
        return None
    offset = tokens.offsets[token]
    for message in rendering.messages:
        if any(piece.start <= offset < piece.end for piece in message.pieces):
            part = _innermost(message.parts, offset)
            source = part.source if part is not None else None
            if source is not None and source.startswith("tools"):
                return source
            return f"messages[{message.index}]" + (f".{source}" if source else "")
    part = _innermost(rendering.preamble.parts, offset)
    return part.source if part is not None else None


def _innermost(parts: tuple[Part, ...], offset: int) -> Part | None:
    for part in parts:
        if part.start <= offset < part.end:
            return _innermost(part.children, offset) or part
    return None
