"""Recordings: the same samples are the same recording, and no file takes more than its share."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanparse.errors import ConversationError
from spanparse.media import Audio, MediaPart, audio
from spanparse.media.audio import decode_audio

PART = MediaPart(0, 2, {"type": "input_audio"})
Sound = Callable[..., bytes]


def decoded(data: bytes) -> Audio:
    return decode_audio(PART, data)


def test_the_same_samples_in_another_file_format_are_the_same_recording(sound: Sound) -> None:
    one, other = decoded(sound(channels=2)), decoded(sound(channels=2, floats=True))
    assert one.data != other.data
    assert (one.id, one.rate, one.channels, one.n_frames) == (other.id, 8000, 2, 800)


@pytest.mark.parametrize("other", [{"seed": 1}, {"n_frames": 801}, {"rate": 8001}, {"n_frames": 400, "channels": 2}])
def test_other_samples_rates_and_channels_are_another_recording(sound: Sound, other: dict[str, int]) -> None:
    assert decoded(sound(**other)).id != decoded(sound()).id


@pytest.mark.parametrize(("rate", "n_samples"), [(8000, 800), (16000, 1600), (4000, 400)])
def test_one_channel_at_another_rate_is_as_long_in_seconds(sound: Sound, rate: int, n_samples: int) -> None:
    assert len(decoded(sound(channels=2)).mono(rate)) == n_samples


def test_a_recording_that_is_cut_short_is_refused(sound: Sound) -> None:
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[2\]: a recording that is cut short"):
        decoded(sound()[:-100])


def test_a_stream_that_states_no_size_is_not_cut_short(sound: Sound) -> None:
    whole = sound()
    at = whole.index(b"data") + 4
    stream = whole[:at] + b"\xff" * 4 + whole[at + 4 :]
    assert decoded(stream).id == decoded(whole).id


@pytest.mark.parametrize("n_frames", [0, 1])
def test_a_recording_of_no_length_is_refused(sound: Sound, n_frames: int) -> None:
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[2\]: a recording of no length"):
        decoded(sound(n_frames))


def test_a_recording_beyond_the_limits_is_refused(sound: Sound, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConversationError, match="more than 3600 seconds"):
        decoded(sound(7201, rate=2))
    monkeypatch.setattr(audio, "MAX_SAMPLES", 1000)
    with pytest.raises(ConversationError, match="more than"):
        decoded(sound(600, channels=2))


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_no_bytes_do_more_than_raise_an_error_that_names_the_part(data: bytes) -> None:
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[2\]: "):
        decoded(data)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_file_is_a_recording_or_refused(sound: Sound, data: st.DataObject) -> None:
    damaged = bytearray(sound(40))
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(ConversationError):
        assert decoded(bytes(damaged)).n_frames >= 2


@pytest.mark.parametrize("data", [b"fLaC" + bytes(60), b"ID3" + bytes(60), b"RIFF" + struct.pack("<I", 36) + b"WAVE"])
def test_the_beginning_of_a_format_is_no_recording(data: bytes) -> None:
    with pytest.raises(ConversationError, match="a broken recording"):
        decoded(data)
