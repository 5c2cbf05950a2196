"""Where a part's bytes come from, and what is wrong with it where they do not."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spanparse.errors import ConversationError, MediaUnavailable
from spanparse.media import MediaPart, decode, media_parts
from spanparse.media.parts import MAX_BYTES

DATA = b"\x89PNG and so on"
BASE64 = base64.b64encode(DATA).decode()


def part(**fields: Any) -> MediaPart:
    return MediaPart(3, 1, fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BASE64}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{BASE64}"},
        {"type": "image_url", "image_url": {"url": f"data:;base64,{BASE64[:7]}\n {BASE64[7:]}"}},
        {"type": "image_url", "image_url": {"url": "data:image/png,%89PNG%20and%20so%20on"}},
        {"type": "input_audio", "input_audio": {"data": BASE64, "format": "wav"}},
        {"type": "image", "image": DATA},
        {"type": "image", "image": bytearray(DATA)},
        {"type": "image", "base64": BASE64},
        {"type": "image", "url": f"data:image/png;base64,{BASE64}"},
        {"type": "audio", "audio": {"data": BASE64}},
    ],
)
def test_bytes_are_read_from_data_urls_base64_and_bytes(fields: dict[str, Any]) -> None:
    assert part(**fields).read(files=False) == DATA


@pytest.mark.parametrize("spell", ["{}", "file://{}"])
@pytest.mark.parametrize("field", ["url", "path", "image"])
def test_a_file_is_read_where_that_is_allowed(tmp_path: Path, spell: str, field: str) -> None:
    path = tmp_path / "a b.png"
    path.write_bytes(DATA)
    named = part(**{"type": "image", field: spell.format(path)})
    assert named.read(files=True) == DATA
    with pytest.raises(MediaUnavailable, match="files of this machine are not read here"):
        named.read(files=False)


@pytest.mark.parametrize("url", ["http://example.org/a.png", "HTTPS://example.org/a.png", "ftp://example.org/a.png"])
def test_nothing_is_fetched_from_a_network(url: str) -> None:
    with pytest.raises(MediaUnavailable, match=r"messages\[3\]\.content\[1\]: \w+: URLs are not fetched"):
        part(type="image_url", image_url={"url": url}).read(files=True)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,a*b"}}, "not valid base64"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,abc"}}, "not valid base64"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64"}}, "without a comma"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}, "holds no bytes"),
        ({"type": "input_audio", "input_audio": {"data": "ä"}}, "not valid base64"),
        ({"type": "image", "image": 7}, "should be a string, got int"),
        ({"type": "image", "image": "no such file.png"}, "no such file.png is no file"),
        ({"type": "image", "image": "a\0b"}, "is no file|null"),
        ({"type": "image"}, "carries no image"),
        ({"type": "image_url", "image_url": {}}, "carries no image"),
        ({"type": "audio", "audio": None}, "carries no audio"),
        ({"type": "document", "document": "x"}, "neither text nor image nor audio"),
    ],
)
def test_what_is_wrong_with_a_part_is_said_by_its_name(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConversationError, match=reason) as raised:
        decode(part(**fields), files=True)
    assert raised.value.where == "messages[3].content[1]"
    assert raised.value.message == 3


def test_a_device_without_end_is_no_file() -> None:
    with pytest.raises(ConversationError, match="is no file"):
        part(type="image", path=os.devnull).read(files=True)


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ConversationError, match="larger than 64 MiB"):
        part(type="image", path=str(path)).read(files=True)


def test_media_are_found_in_order(user: Callable[..., list[dict[str, Any]]]) -> None:
    messages = [
        {"role": "system", "content": "You see."},
        *user("a", {"type": "image", "image": DATA}, {"type": "text", "text": "b"}),
        {"role": "assistant", "content": None},
        *user({"type": "input_audio", "input_audio": {"data": BASE64}}, {"type": "video"}),
    ]
    found = [(each.where, each.kind) for each in media_parts(messages)]
    assert found == [
        ("messages[1].content[1]", "image"),
        ("messages[3].content[0]", "audio"),
        ("messages[3].content[1]", "video"),
    ]
