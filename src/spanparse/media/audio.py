"""Recordings: files to samples, within limits."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from spanparse.errors import MissingExtra
from spanparse.media.parts import MediaPart, identity

MAX_SAMPLES: Final = 64_000_000
"""The most samples, over all channels, that are decoded: 22 minutes of stereo at 48 kHz, 66 of mono at 16 kHz."""

MAX_SECONDS: Final = 3600
"""The longest recording that is decoded."""

_BLOCK_FRAMES: Final = 1 << 14
_RIFF_HEADER: Final = 12
_UNKNOWN_SIZE: Final = 0xFFFFF000


@dataclass(frozen=True, slots=True)
class Audio:
    """A recording of `n_frames` samples on each of `channels`, `rate` a second. `data` is the file it was read from."""

    rate: int
    channels: int
    n_frames: int
    data: bytes = field(repr=False)
    id: str

    @property
    def seconds(self) -> float:
        return self.n_frames / self.rate

    def mono(self, rate: int) -> array[float]:
        """32-bit samples of one channel at `rate`, mixed and resampled by the library that libmtmd uses."""
        samples: array[float] = array("f")
        for block in _decode(self.data, 1, rate):
            samples.extend(block)
        return samples


def decode_audio(part: MediaPart, data: bytes) -> Audio:
    """The recording in a WAV, MP3 or FLAC file, which are what llama.cpp reads.

    Raises `ConversationError` naming the part if the file is broken, cut short or too long, `MissingExtra` without
    miniaudio.
    """
    miniaudio = _miniaudio(part.where)
    try:
        info = _info(miniaudio, data)
        if info is None:
            part.refuse("no recording in one of the formats WAV, MP3, FLAC")
        samples: array[float] = array("f")
        for block in _decode(data, info.nchannels, info.sample_rate):
            samples.extend(block)
            # What the file says about its length may be a lie.
            if len(samples) > MAX_SAMPLES or len(samples) > MAX_SECONDS * info.sample_rate * info.nchannels:
                part.refuse(f"a recording of more than {MAX_SECONDS} seconds or {MAX_SAMPLES // 10**6} million samples")
    except (miniaudio.MiniaudioError, ValueError, ZeroDivisionError) as error:
        part.refuse(f"a broken recording ({error})")
    n_frames = len(samples) // info.nchannels
    if n_frames < info.num_frames or _is_cut(data):
        part.refuse("a recording that is cut short")
    if n_frames < 2:
        part.refuse("a recording of no length")
    shape = (info.sample_rate, info.nchannels, n_frames)
    return Audio(*shape, data, identity("audio", shape, memoryview(samples).cast("B")))


def _decode(data: bytes, channels: int, rate: int) -> Iterator[array[float]]:
    """Blocks of 32-bit samples, channels interleaved."""
    miniaudio = _miniaudio("audio")
    blocks: Iterator[array[float]] = miniaudio.stream_memory(
        data,
        output_format=miniaudio.SampleFormat.FLOAT32,
        nchannels=channels,
        sample_rate=rate,
        frames_to_read=_BLOCK_FRAMES,
    )
    return blocks


def _info(miniaudio: Any, data: bytes) -> Any:
    """What the file says about itself, None if it is of no format that llama.cpp reads.

    The formats are told apart as libmtmd tells them, by their first bytes.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return miniaudio.wav_get_info(data)
    if data[:4] == b"fLaC":
        return miniaudio.flac_get_info(data)
    if data[:3] == b"ID3" or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0):
        return miniaudio.mp3_get_info(data)
    return None


def _is_cut(data: bytes) -> bool:
    """Whether a WAV file ends before its samples do; decoders take what is there. Streams state no true size."""
    at = _RIFF_HEADER
    while data[:4] == b"RIFF" and at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"data":
            return at + 8 + size > len(data) and size < _UNKNOWN_SIZE
        at += 8 + size + size % 2
    return False


def _miniaudio(where: str) -> Any:
    try:
        return import_module("miniaudio")
    except ImportError as error:
        raise MissingExtra(where, "media", "decoding a recording") from error
