"""Renders of the messages before: where they are a prefix of the text, the next message begins where they end."""

from __future__ import annotations

import re
from typing import Final

from tests.audit.markers import CLOSER, format_of
from tests.audit.oracle.view import Fault, View

# Something that is opened and closed in front of a turn.
_BLOCK: Final = re.compile(r"\s*\[([A-Z_]+)\].*\[/\1\]\s*|\s*<([a-z_]+)>.*</\2>\s*", re.DOTALL)


def check_borders(view: View) -> list[Fault]:
    """Each pair of neighbours that stand side by side in one piece each.

    The rule is that text which the messages of a role always begin with belongs to the message it introduces. So the
    next message may begin earlier, but not with what closes the one before; and it may begin later, if the text between
    holds no start of a turn: then the message before ends otherwise when nothing follows it.
    """
    markers = format_of(view.text)
    quotes = any(markers.start.search(field.value) for message in view.fields for field in message) if markers else True
    pieces = {
        message.index: message.pieces[0]
        for message in view.rendering.messages
        if len(message.pieces) == 1 and message.exact
    }
    found = []
    for index in view.case.probes:
        before, piece = pieces.get(index - 1), pieces.get(index)
        if before is None or piece is None or before.end != piece.start:
            continue
        head = view.case.text_before(index)
        if head is None or not view.text.startswith(head) or not before.start < len(head) < piece.end:
            continue
        between = view.text[min(piece.start, len(head)) : max(piece.start, len(head))]
        # White space after the last message and between two may look alike.
        if not between.strip():
            continue
        if piece.start < len(head):
            if CLOSER.match(between) and not view.always_begins(index, between):
                found.append(Fault("border", index, f"begins with {between!r}, which is there without it"))
        elif markers is None or quotes:
            continue
        # A start in front of another one begins a turn of nobody's.
        elif _BLOCK.fullmatch(between) or (
            markers.start.search(between) and not markers.start.match(view.text, piece.start)
        ):
            found.append(Fault("border", index - 1, f"ends with {between!r}, which starts the next turn"))
    return found
