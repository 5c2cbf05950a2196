"""From a rendering to its token map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, takewhile

from spanparse.errors import ConversationError
from spanparse.spans import MessageSpan, Piece, Rendering
from spanparse.tokens.base import Backend
from spanparse.tokens.boundary import Boundaries
from spanparse.tokens.encoding import Encoding, encode
from spanparse.tokens.filling import fill, with_holes
from spanparse.tokens.map import Foundation, MessageTokens, PlaceKind, TokenBarrier, TokenMap, TokenRange
from spanparse.tokens.media import Insertion, media_parts


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
        shared, now, known = self.encoding.shared, self.rendering.barriers, self.before
        kept = 0
        if known is not None:
            pairs = zip(known.rendering.barriers, now, strict=False)
            kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] and pair[1].offset <= shared, pairs))
        rest = (self._barrier(each.offset, each.stable, each.kind, each.message) for each in now[kept:])
        return (*(known.barriers[:kept] if known else ()), *rest)

    def _messages(self, backed_off: dict[int, int]) -> tuple[MessageTokens, ...]:
        shared, now, known = self.encoding.shared, self.rendering.messages, self.before
        kept = 0
        if known is not None:
            pairs = ((old.pieces, new.pieces) for old, new in zip(known.rendering.messages, now, strict=False))
            same = takewhile(lambda pair: pair[0] == pair[1] and (not pair[1] or pair[1][-1].end <= shared), pairs)
            kept = sum(1 for _ in same)
        return (*(known.messages[:kept] if known else ()), *(self._message(each, backed_off) for each in now[kept:]))

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
