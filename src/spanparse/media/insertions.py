"""From decoded media and placeholders to what a token map puts in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
    found = _shown(rendering, media)
    if expand is not None:
        expansions = {place: expand(content, part_name(place)) for place, content in media.items()}
        return [_insertion(placeholder, expansions[placeholder.place]) for placeholder in found]
    return [_insertion(each, estimate(each, media[each.place], backend)) for each in found]


def insert_expansions(rendering: Rendering, expansions: Mapping[Place, Expansion]) -> list[Insertion]:
    """The same for media of which only is known what they become."""
    return [_insertion(placeholder, expansions[placeholder.place]) for placeholder in _shown(rendering, expansions)]


def _insertion(placeholder: Placeholder, expansion: Expansion) -> Insertion:
    return Insertion(placeholder.start, placeholder.end, *placeholder.place, placeholder.index, expansion)


def part_name(place: Place) -> str:
    """A media part's path in the request."""
    return f"messages[{place[0]}].content[{place[1]}]"


def _shown(rendering: Rendering, places: Iterable[Place]) -> list[Placeholder]:
    """The placeholders of media. Raises `MediaUnavailable` for those that have none."""
    wanted = set(places)
    found = [placeholder for placeholder in find_placeholders(rendering) if placeholder.place in wanted]
    shown = {placeholder.place for placeholder in found}
    for message, part in places:
        if (message, part) not in shown:
            source = f"content[{part}]"
            texts = [rendering.text[p.start : p.end] for p in rendering.messages[message].parts if p.source == source]
            shown_as = f"shows it as {''.join(texts)[:60]!r}, which is no known placeholder"
            what = shown_as if texts else "shows nothing of it"
            raise MediaUnavailable(f"messages[{message}].{source}", f"the template {what}", message)
    return found
