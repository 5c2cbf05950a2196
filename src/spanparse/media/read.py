"""From the media parts of a conversation to their decoded content."""

from __future__ import annotations

from typing import Any

from spanparse.media.audio import Audio, decode_audio
from spanparse.media.image import Image, decode_image
from spanparse.media.parts import MediaPart, media_parts

Media = Image | Audio
Place = tuple[int, int]
"""A message's index and a part's index in its content."""


def read_media(messages: list[dict[str, Any]], *, files: bool = False) -> dict[Place, Media]:
    """All media of a conversation, decoded, by place. Raises as `decode` for the first that cannot be."""
    return {(part.message, part.place): decode(part, files=files) for part in media_parts(messages)}


def decode(part: MediaPart, *, files: bool = False) -> Media:
    """The decoded content of a part. With `files` it may name a file of this machine, which a server must not allow.

    Raises `ConversationError` naming the part for what cannot be read; `MediaUnavailable` for what is not at hand and
    for every video, whose frames only an ffmpeg of the machine could tell; `MissingExtra` without the library that
    decodes it.
    """
    if part.kind == "video":
        part.unavailable("video is not supported; send frames of it as images")
    data = part.read(files=files)
    return decode_image(part, data) if part.kind == "image" else decode_audio(part, data)
