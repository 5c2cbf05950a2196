"""Images: files to pixels, within limits."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from spanparse.errors import ConversationError, MissingExtra
from spanparse.media.parts import MediaPart, identity

MAX_PIXELS: Final = 64_000_000
"""The most pixels that are decoded: 192 MB of them."""

# What browsers show. Nothing that runs programs (EPS), no containers of documents (PDF) or of other codecs (TIFF).
_FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")

# What is done about warnings holds for the whole process: two threads that change it at once leave it changed.
_LOCK: Final = Lock()


@dataclass(frozen=True, slots=True)
class Image:
    """A decoded image: `pixels` are `height` rows of `width` times red, green and blue, a byte each."""

    width: int
    height: int
    pixels: bytes = field(repr=False)
    id: str


def decode_image(part: MediaPart, data: bytes) -> Image:
    """The image in a PNG, JPEG, WebP, GIF or BMP file: the first frame, upright, transparency ignored.

    Raises `ConversationError` naming the part if the file is broken, cut short or too large, `MissingExtra` without
    Pillow.
    """
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise MissingExtra(part.where, "media", "decoding an image") from error
    try:
        with _LOCK, warnings.catch_warnings():
            # Of broken files, and of sizes beyond a limit of Pillow's that is higher than ours.
            warnings.simplefilter("ignore")
            with PIL.Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
                width, height = opened.size
                if width * height > MAX_PIXELS:
                    part.refuse(f"an image of {width} × {height} pixels, more than {MAX_PIXELS // 10**6} million")
                upright = PIL.ImageOps.exif_transpose(opened)
                pixels = _eight_bits(upright).convert("RGB")
    except PIL.UnidentifiedImageError:
        part.refuse(f"no image in one of the formats {', '.join(_FORMATS)}")
    except PIL.Image.DecompressionBombError:
        part.refuse(f"an image of more than {MAX_PIXELS // 10**6} million pixels")
    except ConversationError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a file that lies about itself makes a decoder raise
        part.refuse(f"a broken image file ({error or type(error).__name__})")
    content = pixels.tobytes()
    return Image(pixels.width, pixels.height, content, identity("image", pixels.size, content))


def _eight_bits(image: Any) -> Any:
    """Sixteen bits a channel cut down to eight; Pillow's own conversion would clip them."""
    if image.mode.startswith("I;16") or image.mode == "I":
        return image.convert("I").point(lambda value: value / 256).convert("L")
    return image
