"""The token map of a rendering: which tokens each message takes, and where the token list may safely be cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from spanparse.errors import ConversationError
from spanparse.spans import BarrierKind, MessageSpan, Piece, Rendering
from spanparse.tokens.base import Backend
from spanparse.tokens.boundary import Boundaries
from spanparse.tokens.encoding import Encoding, encode
from spanparse.tokens.holes import with_holes
from spanparse.tokens.media import Insertion, MediaRun, fill, media_parts

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


def token_map(
    rendering: Rendering,
    backend: Backend,
    *,
    template: str | None = None,
    trust_content: bool = False,
    any_text: bool = False,
    media: Sequence[Insertion] = (),
    previous: TokenMap | None = None,
) -> TokenMap:
    """The token ids of `rendering`, their offsets, and the token ranges of its spans.

    Control tokens are found only in text that is the template's own; in `rendering.caller_text` they are text. A token
    counts as control if it is special, shaped like `<|…|>`, or emitted by the template as a literal. Which ones those
    are is read off `template`, its source, and off this rendering; without `template` a later prompt that shows more of
    them may change the ids of callers' text that quotes one. `trust_content` gives the ordinary ids of the whole text
    instead. For text that quotes no control token both are the same.

    BOS is put first if the vocabulary asks for it and the text does not begin with it, perhaps behind white space.

    `any_text` makes barriers safe against any text after them, not only against what a template renders there. If the
    vocabulary lacks some of the control tokens that `template` writes, a barrier counts on what follows only where it
    is a control token that opens turns of several roles.

    `media` (see `spanparse.media`) go in place of what the template shows for them: text ends before and begins anew
    after each. Media that are not among them stay the tokens of their placeholder.

    `previous` is an earlier map by the same backend: what the texts share, up to the last control
    token of the template's that is in both, is not tokenised again. The result is the same without it.

    Raises `ConversationError` if the text holds half a surrogate pair, which no tokeniser can read, and `SourceError`
    if tokens cannot be aligned with the text.
    """
    text = rendering.text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"lone surrogate {text[error.start]!r} at character {error.start} of the rendering"
        raise ConversationError("messages", where) from None
    holed = with_holes(backend, frozenset(text[i.start : i.end] for i in media)) if media else None
    backend = holed or backend
    before = None if previous is None else previous.foundation
    encoding = encode(
        text,
        rendering.caller_text,
        backend,
        template=template,
        trust_content=trust_content,
        previous=before.encoding if before else None,
    )
    # With another model's vocabulary some turns may open with a control token and others with text.
    openers = None if template is None or backend.added.fit(template) else _openers(rendering, encoding)
    mapped = _Mapper(rendering, encoding, openers, any_text, before).map()
    return mapped if holed is None else fill(mapped, rendering, media, holed)


def _openers(rendering: Rendering, encoding: Encoding) -> frozenset[int]:
    """The control tokens that open turns of several roles in this prompt, and so those of all."""
    found = {cut.start: cut.token.id for cut in encoding.cuts}
    turns = [(message.role, piece.start) for message in rendering.messages for piece in message.pieces]
    if rendering.generation_prompt is not None:
        turns.append(("assistant", rendering.generation_prompt.start))
    opened = {(role, found[start]) for role, start in turns if start in found}
    return frozenset(id for id, count in Counter(id for _, id in opened).items() if count > 1)


class _Mapper:
    def __init__(
        self,
        rendering: Rendering,
        encoding: Encoding,
        openers: frozenset[int] | None,
        any_text: bool,
        before: Foundation | None,
    ) -> None:
        self.rendering = rendering
        self.encoding = encoding
        self.openers = openers
        self.boundaries = boundaries = Boundaries(encoding, openers)
        self.any_text = any_text
        media = [part.start for _, part in media_parts(rendering)]
        self.media_token = boundaries.begun(min(media)) if media else None
        # Only barriers depend on these, but messages say how far theirs backed off. Media change all positions.
        if before is not None and (before.any_text, before.openers) != (any_text, openers):
            before = None
        if before is not None and (media or before.has_media):
            before = None
        self.before = before

    def map(self) -> TokenMap:
        rendering = self.rendering
        barriers = self._barriers()
        messages = self._messages({barrier.offset: barrier.backed_off for barrier in barriers})
        preamble = self._range(Piece(rendering.preamble.start, rendering.preamble.end))
        generation_prompt, end = rendering.generation_prompt, rendering.system_end
        has_media = self.media_token is not None
        return TokenMap(
            ids=self.encoding.ids,
            offsets=self.encoding.offsets,
            bos_added=self.encoding.bos_added,
            exact=self.encoding.exact,
            # No message owns a BOS that is not in the text.
            preamble=preamble._replace(begin=0, pos_begin=0) if preamble.begin <= self.encoding.bos_added else preamble,
            message_ranges=messages,
            generation_prompt=None if generation_prompt is None else self._range(generation_prompt),
            barriers=barriers,
            system_end=None if end is None else self._barrier(end, None, "system_end", None),
            tool_ends=self._tool_ends(),
            has_media=has_media,
            media_known=not has_media,
            foundation=Foundation(rendering, self.encoding, self.any_text, self.openers, has_media, messages, barriers),
        )

    def _barriers(self) -> tuple[TokenBarrier, ...]:
        now, kept = self.rendering.barriers, 0
        if self.before is not None:
            for old, new in zip(self.before.rendering.barriers, now, strict=False):
                if old != new or new.offset > self.encoding.shared:
                    break
                kept += 1
        rest = (self._barrier(each.offset, each.stable, each.kind, each.message) for each in now[kept:])
        return (*(self.before.barriers[:kept] if self.before else ()), *rest)

    def _messages(self, backed_off: dict[int, int]) -> tuple[MessageTokens, ...]:
        now, kept = self.rendering.messages, 0
        if self.before is not None:
            for old, new in zip(self.before.rendering.messages, now, strict=False):
                if old.pieces != new.pieces or (new.pieces and new.pieces[-1].end > self.encoding.shared):
                    break
                kept += 1
        rest = (self._message(message, backed_off) for message in now[kept:])
        return (*(self.before.messages[:kept] if self.before else ()), *rest)

    def _tool_ends(self) -> tuple[TokenBarrier, ...]:
        parts = chain(self.rendering.preamble.parts, *(message.parts for message in self.rendering.messages))
        block = next((part for part in parts if part.kind == "tools"), None)
        if block is None:
            return ()
        ends = [tool.end for tool in block.children if tool.end < block.end]
        inner = (self._barrier(end, None, "tool_end", None, any_text=True) for end in ends)
        return (*inner, self._barrier(block.end, None, "tools_end", None, any_text=True))

    def _barrier(
        self, offset: int, stable: bool | None, kind: PlaceKind, message: int | None, *, any_text: bool = False
    ) -> TokenBarrier:
        token = self.boundaries.safe(offset, any_text=any_text or self.any_text)
        backed_off = self.boundaries.begun(offset) - token
        return TokenBarrier(offset, token, self._position(token), backed_off, stable, kind, message)

    def _message(self, message: MessageSpan, backed_off: dict[int, int]) -> MessageTokens:
        pieces = tuple(map(self._range, message.pieces))
        return MessageTokens(message.index, pieces, backed_off.get(message.pieces[0].start, 0) if pieces else 0)

    def _range(self, piece: Piece) -> TokenRange:
        begin, end = self.boundaries.begun(piece.start), self.boundaries.begun(piece.end)
        return TokenRange(begin, end, self._position(begin), self._position(end))

    def _position(self, token: int) -> int | None:
        """The memory position of a token: its index, as long as no media of unknown length stand before it."""
        return token if self.media_token is None or token <= self.media_token else None


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
