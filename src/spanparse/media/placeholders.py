"""Where a rendering shows media: the characters that the runtime puts the media in place of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spanparse.media.read import Place
from spanparse.shared import gaps
from spanparse.spans import Part, Rendering
from spanparse.tokens.media import media_parts

# What published templates write for media, with what they write around it; the runtime has its own begin and end, so
# these go too. Repeated placeholders stand for one image.
_BEGINS: Final = (
    *("<|vision_start|>", "<|vision_bos|>", "<|audio_start|>", "<|audio_bos|>", "<|mimo_audio_start|>", "<vision>"),
    *("<|begin_of_image|>", "<|begin_of_audio|>", "<|IMAGE_START|>", "<|AUDIO_START|>", "<｜hy_image▁start｜>"),
    *("<|media_start|>image<|media_content|>", "<|media_begin|>image<|media_content|>"),
    *("<｜hy_place▁holder▁no▁100｜>", "<｜hy_place▁holder▁no▁666｜>", "[BEGIN_AUDIO]", "<image>"),
)
_ENDS: Final = (
    *("<|vision_end|>", "<|vision_eos|>", "<|audio_end|>", "<|audio_eos|>", "<|mimo_audio_end|>", "</vision>"),
    *("<|end_of_image|>", "<|end_of_audio|>", "<|IMAGE_END|>", "<|AUDIO_END|>", "<｜hy_image▁end｜>", "<end_of_image>"),
    *("<|media_end|>", "<｜hy_place▁holder▁no▁101｜>", "<｜hy_place▁holder▁no▁667｜>", "[IMG_END]"),
    "</image>",
)
_PLACEHOLDERS: Final = (
    *("<|image_pad|>", "<|audio_pad|>", "<|media_pad|>", "<|media_placeholder|>", "<image_pad>", "<|pad|>"),
    *("<start_of_image>", "<image_soft_token>", "<audio_soft_token>", "<|image|>", "<|audio|>", "<|IMAGE|>"),
    *("<|AUDIO|>", "<|image@placeholder|>", "<image>", "<audio>", "<sound>", "<IMG_CONTEXT>", "<im_patch>"),
    *("<|IMG_PATCH|>", "[IMG]", "[AUDIO]", "[image]", "<image_placeholder>", "<REKA_IMG_TOKEN>"),
    *("<｜hy_place▁holder▁no▁102｜>", "<｜hy_place▁holder▁no▁669｜>", "<｜hy_image▁pad｜>"),
    *("<|image_start|>", "<|begin_of_image|>"),
)
_NUMBERED: Final = (r"<\|(?:image|audio)_\d+\|>", r"<image-\d+>")


def _any(texts: Sequence[str], *patterns: str) -> str:
    return "|".join([*map(re.escape, texts), *patterns])


_GROUP: Final = re.compile(
    rf"(?P<begin>{_any(_BEGINS)})?"
    rf"(?P<placeholder>{_any(_PLACEHOLDERS, *_NUMBERED)})(?P=placeholder)*"
    rf"(?P<end>{_any(_ENDS)})?"
)


# A template that repeats its placeholder for every token of an image it has no other size for writes far more.
_LONGEST: Final = 2000


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Characters [start, end) of the rendering that stand for the media part at `place`.

    `index` is the part's number among the media of its message. `text` is the placeholder itself, which stands between
    `before` and `after`, both "" where the template writes none.
    """

    place: Place
    index: int
    start: int
    end: int
    text: str
    before: str
    after: str


def find_placeholders(rendering: Rendering) -> list[Placeholder]:
    """The placeholders of all media that the template shows in a known way, in the order of the text.

    Only the template's own literals are looked at: no text of a caller's can pass for a placeholder. A template may
    show a part several times, or not at all.
    """
    found = []
    for message, part in media_parts(rendering):
        for start, end in gaps(rendering.caller_text, part.start, part.end):
            for match in _GROUP.finditer(rendering.text, start, end):
                if match.end() - match.start() > _LONGEST:
                    continue
                place, index = (message, _content_index(part)), part.index or 0
                before, after = match["begin"] or "", match["end"] or ""
                found.append(Placeholder(place, index, *match.span(), match["placeholder"], before, after))
    return sorted(found, key=lambda placeholder: placeholder.start)


def _content_index(part: Part) -> int:
    """A media part's source is `content[…]`."""
    source = part.source or ""
    return int(source[source.index("[") + 1 : source.index("]")])
