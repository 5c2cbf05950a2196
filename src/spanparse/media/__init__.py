"""Images and recordings in a conversation: their content, its identity, and what they take in a prompt.

Needs the [media] extra (Pillow, miniaudio) as soon as something is decoded. A token map of a rendering with media:

    media = read_media(messages, files=True)
    token_map(rendering, backend, media=insertions(rendering, media, projector.expand, backend))
"""

from __future__ import annotations

from spanparse.media.audio import Audio
from spanparse.media.estimate import estimate
from spanparse.media.image import Image
from spanparse.media.insertions import Expand, insert_expansions, insertions
from spanparse.media.parts import MediaPart, media_parts
from spanparse.media.placeholders import Placeholder, find_placeholders
from spanparse.media.read import Media, Place, decode, read_media

__all__ = [
    "Audio",
    "Expand",
    "Image",
    "Media",
    "MediaPart",
    "Place",
    "Placeholder",
    "decode",
    "estimate",
    "find_placeholders",
    "insert_expansions",
    "insertions",
    "media_parts",
    "read_media",
]
