"""From decoded media and placeholders to what a token map puts in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spanparse.errors import MediaUnavailable
from spanparse.media.estimate import estimate
from spanparse.media.placeholders import Placeholder, find_placeholders
from spanparse.media.read import Media, Place
from spanparse.spans import Rendering
from spanparse.tokens.base import Backend
from spanparse.tokens.media import Expansion, Insertion

Expand = Callable[[Media, str], Expansion]
"""What media become in the runtime that will evaluate them; the text names their part in errors."""


def insertions(
    rendering: Rendering, media: Mapping[Place, Media], expand: Expand | None, backend: Backend
) -> list[Insertion]:
    """What `token_map` puts in place of the placeholders of `media` in `rendering`.

    `expand` asks the runtime; without it numbers are estimated, for the rule that `backend` encodes the texts of.
    Raises `MediaUnavailable` for media that the template shows in no known way, or not at all.
    """
    found = find_placeholders(rendering)
    _check_shown(rendering, media, found)
    expansions: dict[Place, Expansion] = {}
    if expand is not None:
        expansions = {place: expand(content, part_name(place)) for place, content in media.items()}
    return [
        Insertion(
            start=placeholder.start,
            end=placeholder.end,
            message=placeholder.place[0],
            part=placeholder.place[1],
            index=placeholder.index,
            expansion=expansions.get(placeholder.place) or estimate(placeholder, media[placeholder.place], backend),
        )
        for placeholder in found
        if placeholder.place in media
    ]


def part_name(place: Place) -> str:
    """A media part's path in the request."""
    return f"messages[{place[0]}].content[{place[1]}]"


def _check_shown(rendering: Rendering, media: Mapping[Place, Media], found: list[Placeholder]) -> None:
    shown = {placeholder.place for placeholder in found}
    for message, part in media:
        if (message, part) not in shown:
            source = f"content[{part}]"
            texts = [rendering.text[p.start : p.end] for p in rendering.messages[message].parts if p.source == source]
            what = (
                f"shows it as {''.join(texts)[:60]!r}, which is no known placeholder"
                if texts
                else "shows nothing of it"
            )
            raise MediaUnavailable(f"messages[{message}].{source}", f"the template {what}", message)
