"""The token map of a rendering: which tokens each message takes, and where the token list may safely be cut."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from spanparse.spans import BarrierKind, Rendering
from spanparse.tokens.encoding import Encoding
from spanparse.tokens.media import MediaRun

PlaceKind = Literal[BarrierKind, "tools_end", "tool_end"]
"""What a place in the token list is: a barrier of that kind, or the end of the tools block or of a tool in it."""


class TokenRange(NamedTuple):
    """Tokens [begin, end) and the memory positions [pos_begin, pos_end) they take.

    A token belongs to the piece in which it begins. Positions are None where media before them take an unknown number.
    """

    begin: int
    end: int
    pos_begin: int | None
    pos_end: int | None


@dataclass(frozen=True, slots=True)
class MessageTokens:
    """The tokens of one message, a range for each of its pieces; none if the template dropped it.

    `backed_off` is that of the barrier where the message begins, 0 where the text begins.
    """

    index: int
    pieces: tuple[TokenRange, ...]
    backed_off: int


class TokenBarrier(NamedTuple):
    """A barrier of the text, or the end of a tool, as a place in the token list.

    `token` is the number of tokens that are safe to keep: they stay the same whatever the template renders after
    `offset` (characters). `position` is the memory position after them, None if media before it take an unknown number.
    `backed_off` counts the tokens after `token` that begin before the barrier, 0 where the list can be cut right at it.
    `stable`, `kind` and `message` are those of `spans.Barrier`; whether the end of a tool is stable is not known.
    """

    offset: int
    token: int
    position: int | None
    backed_off: int
    stable: bool | None
    kind: PlaceKind
    message: int | None


class Foundation(NamedTuple):
    """A map as it was made, whatever was put into it later: what the next map of the conversation can begin with."""

    rendering: Rendering
    encoding: Encoding
    any_text: bool
    openers: frozenset[int] | None
    has_media: bool
    messages: tuple[MessageTokens, ...]
    barriers: tuple[TokenBarrier, ...]


@dataclass(frozen=True, slots=True)
class TokenMap:
    """A rendering as tokens. Its lists are not to be changed.

    `ids` is what the model is fed; `offsets[i]` the character at which token i begins, never less than the one before.
    `bos_added`: the number of tokens (0 or 1) before the text, with offset 0. `exact`: every offset is proven by the
    bytes of the tokens; otherwise a normaliser changed the text and the tokeniser's own word was taken for where its
    tokens begin.

    `tool_ends`: the ends of the tools in the tools block, ascending, the last of them that of the block; safe whatever
    follows, since another tool may.

    `has_media`: the rendering shows media. `media` are the runs of those whose length the caller knew, in order; their
    ids are negative and their offsets that of their placeholder. `media_known`: these are all. `foundation` is for
    the next map of the conversation.
    """

    ids: list[int] = field(repr=False)
    offsets: list[int] = field(repr=False)
    bos_added: int
    exact: bool
    preamble: TokenRange
    message_ranges: tuple[MessageTokens, ...]
    generation_prompt: TokenRange | None
    barriers: tuple[TokenBarrier, ...]
    system_end: TokenBarrier | None
    tool_ends: tuple[TokenBarrier, ...]
    has_media: bool
    foundation: Foundation = field(repr=False, compare=False)
    media: tuple[MediaRun, ...] = ()
    media_known: bool = True

    @property
    def places(self) -> tuple[TokenBarrier, ...]:
        """Where a checkpoint may be kept, ascending: the barriers with tokens before them, the end of system text and
        tools where that is no barrier (tools in front of a user's text), and the ends of the tools."""
        end = () if self.system_end is None else (self.system_end,)
        # Of several at the same token the first named.
        found = {place.token: place for place in (*self.tool_ends, *end, *self.barriers) if place.token}
        return tuple(found[token] for token in sorted(found))

    @property
    def pieces(self) -> list[bytes]:
        """What each token spells; nothing for those of media."""
        pieces = self.foundation.encoding.backend.pieces
        return [pieces[id] if id >= 0 else b"" for id in self.ids]

    @property
    def count(self) -> int:
        """The length of the prompt in tokens."""
        return len(self.ids)


def to_json(map: TokenMap) -> dict[str, Any]:
    """The `tokens` and `barriers` blocks of `inspect --json`."""
    return {
        "tokens": {
            "count": map.count,
            # Of the tokens of a placeholder, which media of unknown length keep, the model sees none.
            "exact": map.exact and map.media_known and all(run.exact for run in map.media),
            "messages": [_message_json(message) for message in map.message_ranges],
            "generation_prompt": None if map.generation_prompt is None else map.generation_prompt._asdict(),
            "media": [asdict(run) for run in map.media] if map.media_known else None,
        },
        "barriers": [barrier._asdict() for barrier in map.barriers],
    }


def _message_json(message: MessageTokens) -> dict[str, Any]:
    first, last = (message.pieces[0], message.pieces[-1]) if message.pieces else (None, None)
    block: dict[str, Any] = {
        "index": message.index,
        "begin": first and first.begin,
        "end": last and last.end,
        "pos_begin": first and first.pos_begin,
        "pos_end": last and last.pos_end,
        "backed_off": message.backed_off,
    }
    if len(message.pieces) > 1:
        block["pieces"] = [piece._asdict() for piece in message.pieces]
    return block
