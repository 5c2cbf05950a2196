"""From a token of a prompt back to the message and field it came from."""

from __future__ import annotations

from spanparse.spans import Part, Rendering
from spanparse.tokens.map import TokenMap


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
