"""How many tokens media take where no projector is at hand to tell: a declared rule for each kind of placeholder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Final, NamedTuple

from spanparse.media.audio import Audio
from spanparse.media.placeholders import Placeholder
from spanparse.media.read import Media
from spanparse.tokens.base import Backend
from spanparse.tokens.media import Expansion, media_chunk, text_chunk


class Size(NamedTuple):
    """Tokens and memory positions of one media part."""

    n_tokens: int
    n_pos: int


@dataclass(frozen=True, slots=True)
class Rule:
    """An estimate. `before` and `after` are texts that the runtime puts around the media if the template does not."""

    name: str
    size: Callable[[Media], Size]
    before: str = ""
    after: str = ""


def grid(width: int, height: int, side: int, least: int, most: int) -> tuple[int, int]:
    """How many squares of `side` pixels an image is resized to, across and down, within `least` and `most` squares.

    Qwen2-VL's published "smart resize", which libmtmd uses for every projector of dynamic size.
    """
    across, down = max(1, _round(width / side)), max(1, _round(height / side))
    if across * down > most:
        scale = sqrt(width * height / (most * side * side))
        return max(1, floor(width / scale / side)), max(1, floor(height / scale / side))
    if across * down < least:
        scale = sqrt(least * side * side / (width * height))
        return ceil(width * scale / side), ceil(height * scale / side)
    return across, down


def _round(value: float) -> int:
    """Halves up, as C does, not to even numbers."""
    return floor(value + 0.5)


def _fixed(n_tokens: int) -> Callable[[Media], Size]:
    return lambda media: Size(n_tokens, n_tokens)


def _squares(side: int, least: int, most: int, *, mrope: bool = False) -> Callable[[Media], Size]:
    """A token for each square; with `mrope` positions advance by the longer side."""

    def size(media: Media) -> Size:
        if isinstance(media, Audio):
            return _seconds(25)(media)
        across, down = grid(media.width, media.height, side, least, most)
        return Size(across * down, max(across, down) if mrope else across * down)

    return size


def _seconds(rate: int, *, whole: bool = False) -> Callable[[Media], Size]:
    """`rate` tokens a second; with `whole` for each second begun."""

    def size(media: Media) -> Size:
        if not isinstance(media, Audio):
            return OTHER.size(media)
        n_tokens = ceil(media.seconds) * rate if whole else max(1, ceil(media.seconds * rate))
        return Size(n_tokens, n_tokens)

    return size


# What the models' published preprocessors and libmtmd's defaults do; real projectors differ in size and limits.
OTHER: Final = Rule("other: a token for 28 x 28 pixels, 25 a second of audio", _squares(28, 4, 4096))
RULES: Final = {
    "<|image_pad|>": Rule(
        "qwen-vl: a token for 32 x 32 pixels, 8 to 4096, positions by the longer side",
        _squares(32, 8, 4096, mrope=True),
        "<|vision_start|>",
        "<|vision_end|>",
    ),
    "<start_of_image>": Rule("gemma3: 256 tokens", _fixed(256), "<start_of_image>", "<end_of_image>"),
    "<|image|>": Rule("gemma4: a token for 48 x 48 pixels, 70 to 1120", _squares(48, 70, 1120), "<|image>", "<image|>"),
    "[IMG]": Rule("pixtral: a token for 28 x 28 pixels, 8 to 1024", _squares(28, 8, 1024), "", "[IMG_END]"),
    "<|audio_pad|>": Rule(
        "qwen-audio: 13 tokens for each second begun", _seconds(13, whole=True), "<|audio_start|>", "<|audio_end|>"
    ),
    "<|audio|>": Rule("gemma4: 25 tokens a second", _seconds(25), "<|audio>", "<audio|>"),
}


def estimate(placeholder: Placeholder, media: Media, backend: Backend) -> Expansion:
    """What `media` at `placeholder` become by the rule for that placeholder; never exact."""
    rule = RULES.get(placeholder.text, OTHER)
    size = rule.size(media)
    # Gemma 3's placeholder is the text before its images.
    before, after = placeholder.before or rule.before, placeholder.after or rule.after
    chunks = (
        text_chunk(backend.encode(before, special=True) if before else ()),
        media_chunk(media.id, 0, size.n_tokens, size.n_pos),
        text_chunk(backend.encode(after, special=True) if after else ()),
    )
    return Expansion(media.id, tuple(chunk for chunk in chunks if chunk.ids), exact=False, rule=rule.name)
