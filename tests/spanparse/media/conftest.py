"""Files of small images and recordings."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Callable
from typing import Any

import PIL.Image
import pytest

Picture = Callable[..., bytes]


def _pixels(width: int, height: int, seed: int) -> bytes:
    return bytes((seed * 89 + n * n * 7 + n // 3) % 256 for n in range(width * height * 3))


@pytest.fixture(scope="session")
def picture() -> Picture:
    """Makes an image file; the same size and seed give the same pixels in every format."""

    def make(width: int = 12, height: int = 8, seed: int = 0, form: str = "PNG", **options: Any) -> bytes:
        file = io.BytesIO()
        PIL.Image.frombytes("RGB", (width, height), _pixels(width, height, seed)).save(file, form, **options)
        return file.getvalue()

    return make


@pytest.fixture(scope="session")
def sound() -> Callable[..., bytes]:
    """Makes a WAV file of 16-bit samples, or of 32-bit floats of the same values."""

    def make(n_frames: int = 800, rate: int = 8000, channels: int = 1, seed: int = 0, floats: bool = False) -> bytes:
        values = [(n * n * 31 + seed * 977) % 20000 - 10000 for n in range(n_frames * channels)]
        if floats:
            data = struct.pack(f"<{len(values)}f", *(value / 32768 for value in values))
            head = struct.pack("<HHIIHH", 3, channels, rate, rate * channels * 4, channels * 4, 32)
            body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data)) + data
            return b"RIFF" + struct.pack("<I", len(body)) + body
        file = io.BytesIO()
        with wave.open(file, "wb") as writer:
            writer.setparams((channels, 2, rate, 0, "NONE", ""))
            writer.writeframes(struct.pack(f"<{len(values)}h", *values))
        return file.getvalue()

    return make


@pytest.fixture(scope="session")
def user() -> Callable[..., list[dict[str, Any]]]:
    """Makes a conversation of one message with these parts."""

    def make(*parts: dict[str, Any] | str) -> list[dict[str, Any]]:
        content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        return [{"role": "user", "content": content}]

    return make
