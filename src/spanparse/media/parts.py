"""Which parts of a conversation are images, recordings and videos, and the bytes they carry."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from spanparse.errors import ConversationError, MediaUnavailable
from spanparse.files import read_file
from spanparse.ownership.parts import is_media

MediaKind = Literal["image", "audio", "video"]

MAX_BYTES: Final = 64 << 20
"""The most bytes that one part may carry."""

_KINDS: Final[dict[str, MediaKind]] = {
    "image": "image",
    "image_url": "image",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
    "video": "video",
    "video_url": "video",
}


@dataclass(frozen=True, slots=True)
class MediaPart:
    """Part `place` of the content of message `message`; `fields` are the caller's."""

    message: int
    place: int
    fields: dict[str, Any]

    @property
    def where(self) -> str:
        """Its path in the request, as errors name it."""
        return f"messages[{self.message}].content[{self.place}]"

    @property
    def kind(self) -> MediaKind:
        """Raises `MediaUnavailable` for a part that is neither text nor media, such as a document."""
        kind = _KINDS.get(str(self.fields.get("type")))
        if kind is None:
            self.unavailable(f"a part of type {self.fields.get('type')!r} is neither text nor image nor audio")
        return kind

    def read(self, *, files: bool) -> bytes:
        """The bytes of the file that the part carries or names.

        They are in a `data:` URL, in base64 (`data` of `input_audio`, `base64`), plain `bytes`, or with `files` in a
        file of this machine, named by its path or a `file:` URL. Nothing is ever fetched from a network. Raises
        `ConversationError` naming the part, `MediaUnavailable` where nothing is wrong with it.
        """
        key, value = self._carried()
        if isinstance(value, (bytes, bytearray)):
            data = bytes(value)
        elif not isinstance(value, str):
            self.refuse(f"{key} should be a string, got {type(value).__name__}")
        elif value.startswith("data:"):
            data = self._data_url(value)
        elif key in ("data", "base64"):
            data = self._base64(value)
        else:
            data = self._file(value, files)
        if not data:
            self.refuse(f"{key} holds no bytes")
        if len(data) > MAX_BYTES:
            self._too_large()
        return data

    def refuse(self, reason: str) -> NoReturn:
        """Raises `ConversationError` about this part."""
        raise ConversationError(self.where, reason, self.message)

    def unavailable(self, reason: str) -> NoReturn:
        """Raises `MediaUnavailable` about this part."""
        raise MediaUnavailable(self.where, reason, self.message)

    def _carried(self) -> tuple[str, Any]:
        """The field that holds the bytes or says where they are, inside the object named after the type if any."""
        inner = self.fields.get(str(self.fields.get("type")))
        fields = inner if isinstance(inner, dict) else self.fields
        for key in ("url", "data", "base64", "path"):
            if fields.get(key) is not None:
                return key, fields[key]
        if inner is None or isinstance(inner, dict):
            self.unavailable(f"carries no {self.kind} (a data: URL, a path, or bytes)")
        return str(self.fields["type"]), inner

    def _data_url(self, url: str) -> bytes:
        head, comma, payload = url.partition(",")
        if not comma:
            self.refuse("a data: URL without a comma")
        if not head.endswith(";base64"):
            return unquote_to_bytes(payload)
        return self._base64(unquote(payload) if "%" in payload else payload)

    def _base64(self, text: str) -> bytes:
        if len(text) > 2 * MAX_BYTES:
            self._too_large()
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            self.refuse(f"not valid base64 ({error})")

    def _file(self, name: str, files: bool) -> bytes:
        scheme = urlsplit(name).scheme.lower() if "://" in name else "file"
        if scheme != "file":
            self.unavailable(f"{scheme}: URLs are not fetched; send the bytes as a data: URL")
        if not files:
            self.unavailable("files of this machine are not read here; send the bytes as a data: URL")
        path = Path(unquote(name[len("file://") :]) if "://" in name else name)
        try:
            if not path.is_file():
                self.refuse(f"{path} is no file")
            data = read_file(path, MAX_BYTES)
        except (OSError, ValueError) as error:
            self.refuse(f"{path}: {getattr(error, 'strerror', None) or error}")
        if data is None:
            self._too_large()
        return data

    def _too_large(self) -> NoReturn:
        self.refuse(f"larger than {MAX_BYTES >> 20} MiB")


def media_parts(messages: list[dict[str, Any]]) -> Iterator[MediaPart]:
    """The media parts of a conversation in the order in which it holds them."""
    for index, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list):
            yield from (MediaPart(index, place, part) for place, part in enumerate(content) if is_media(part))


def identity(kind: str, shape: tuple[int, ...], content: bytes | memoryview) -> str:
    """32 hexadecimal digits that follow from kind, shape and decoded content, the same on every machine.

    The same pixels (or samples) in another file format give the same identity, others of the same shape another one.
    """
    digest = blake2b(f"{kind} {'x'.join(map(str, shape))}\n".encode(), digest_size=16)
    digest.update(content)
    return digest.hexdigest()
