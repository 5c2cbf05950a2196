"""Images: the same pixels are the same image, and no file takes more than its share."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress

import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanparse.errors import ConversationError
from spanparse.media import Image, MediaPart
from spanparse.media.image import decode_image

PART = MediaPart(0, 2, {"type": "image"})
Picture = Callable[..., bytes]


def saved(image: PIL.Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def decoded(data: bytes) -> Image:
    return decode_image(PART, data)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("BMP", {}),
        ("WEBP", {"lossless": True}),
        ("PNG", {"compress_level": 0}),
    ],
)
def test_the_same_pixels_in_another_file_format_are_the_same_image(
    picture: Picture, form: str, options: object
) -> None:
    other = picture(form=form, **options)
    assert other != picture()
    assert decoded(other) == decoded(picture())


def test_a_photograph_and_its_lossless_copy_are_the_same_image(picture: Picture) -> None:
    photograph = picture(40, 30, form="JPEG")
    copy = saved(PIL.Image.open(io.BytesIO(photograph)))
    assert decoded(copy).id == decoded(photograph).id


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_one_other_byte_makes_another_image(width: int, height: int, data: st.DataObject) -> None:
    pixels = bytearray(data.draw(st.binary(min_size=width * height * 3, max_size=width * height * 3)))
    first = decoded(saved(PIL.Image.frombytes("RGB", (width, height), bytes(pixels))))
    assert first.pixels == pixels
    pixels[data.draw(st.integers(0, len(pixels) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert decoded(saved(PIL.Image.frombytes("RGB", (width, height), bytes(pixels)))).id != first.id


def test_the_same_bytes_in_another_shape_are_another_image() -> None:
    flat, tall = (saved(PIL.Image.new("RGB", size, "red")) for size in ((4, 2), (2, 4)))
    assert decoded(flat).pixels == decoded(tall).pixels
    assert decoded(flat).id != decoded(tall).id


def test_an_image_stands_upright_as_its_file_says(picture: Picture) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    lying = PIL.Image.open(io.BytesIO(picture(12, 8)))
    upright = decoded(saved(lying, exif=exif))
    assert (upright.width, upright.height) == (8, 12)
    assert upright.id == decoded(saved(lying.transpose(PIL.Image.Transpose.ROTATE_270))).id


@pytest.mark.parametrize("mode", ["RGBA", "L", "LA", "P", "1"])
def test_every_mode_becomes_three_bytes_a_pixel(picture: Picture, mode: str) -> None:
    image = PIL.Image.open(io.BytesIO(picture())).convert(mode)
    found = decoded(saved(image))
    assert found.pixels == image.convert("RGB").tobytes()


def test_sixteen_bits_are_cut_down_to_eight() -> None:
    image = PIL.Image.frombytes("I;16", (3, 1), struct.pack("<3H", 0, 0x8000, 0xFFFF))
    assert decoded(saved(image)).pixels == bytes([0] * 3 + [0x80] * 3 + [0xFF] * 3)


def test_of_an_animation_it_is_the_first_frame(picture: Picture) -> None:
    frames = [PIL.Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    moving = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decoded(moving).pixels == b"\xff\0\0" * 16


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@pytest.mark.parametrize("side", [8001, 60_000, 2**31 - 1])
def test_a_small_file_of_a_huge_image_is_refused_undecoded(side: int) -> None:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[2\]: .* million"):
        decoded(bomb)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_a_file_that_is_cut_short_is_refused(picture: Picture, form: str) -> None:
    whole = picture(40, 30, form=form)
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[2\]: "):
        decoded(whole[: len(whole) * 2 // 3])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_raise_an_error_that_names_the_part(data: bytes) -> None:
    with pytest.raises(ConversationError, match=r"messages\[0\].content\[2\]: no image"):
        decoded(data)


@settings(deadline=None)
@given(st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP"]), st.data())
def test_a_damaged_file_is_an_image_or_refused(picture: Picture, form: str, data: st.DataObject) -> None:
    damaged = bytearray(picture(form=form))
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(ConversationError):
        found = decoded(bytes(damaged))
        assert len(found.pixels) == found.width * found.height * 3


@pytest.mark.parametrize(
    "data", [b"II*\0" + bytes(40), b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"%PDF-1.7\n", b"<svg/>"]
)
def test_documents_and_programs_are_no_images(data: bytes) -> None:
    with pytest.raises(ConversationError, match="no image in one of the formats PNG, JPEG"):
        decoded(data)
