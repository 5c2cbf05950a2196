"""What a conversation brings along becomes the right chunks at the right tokens, or an error that names it."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from types import SimpleNamespace

import PIL.Image
import pytest

from runtime.attachment import Attachment, MediaReader, media_chunks
from runtime.errors import ContextFull, RequestError
from spanparse.media import MediaPart, decode
from spanparse.tokens.media import Expansion, Insertion, media_chunk, text_chunk

PICTURE = Attachment(None, MediaPart(0, 0, {}), None)
SOUND = Attachment(None, MediaPart(1, 2, {}), None)
ATTACHMENTS = {(0, 0): PICTURE, (1, 2): SOUND}


def insertion(start, place, expansion):
    return Insertion(start, start + 1, place[0], place[1], 0, expansion)


def run(place, begin, n_tokens, n_pos):
    return SimpleNamespace(message=place[0], part=place[1], begin=begin, n_tokens=n_tokens, n_pos=n_pos)


TWO_PIECES = Expansion(
    "a", (text_chunk([1]), media_chunk("a", 1, 4, 2), text_chunk([2]), media_chunk("a", 3, 6, 3)), exact=True
)
ONE = Expansion("b", (media_chunk("b", 0, 8, 8),), exact=True)
# In no order: the template may show the parts of a message as it likes.
FILLED = [insertion(50, (1, 2), ONE), insertion(10, (0, 0), TWO_PIECES)]


def tokens(count):
    media = (run((0, 0), 5, 4, 2), run((0, 0), 10, 6, 3), run((1, 2), 40, 8, 8))
    return SimpleNamespace(media=media, count=count)


def test_each_run_is_the_chunk_that_libmtmd_counts_it_as():
    chunks = media_chunks(tokens(60), FILLED, ATTACHMENTS, 100)
    assert [(c.begin, c.end, c.n_pos, c.number) for c in chunks] == [(5, 9, 2, 1), (10, 16, 3, 3), (40, 48, 8, 0)]
    assert [chunk.attachment for chunk in chunks] == [PICTURE, PICTURE, SOUND]


def test_the_first_that_does_not_fit_is_named():
    with pytest.raises(ContextFull, match=r"^messages\[0\].content\[0\]: .* 60 tokens, the context holds 12"):
        media_chunks(tokens(60), FILLED, ATTACHMENTS, 12)


def test_text_that_does_not_fit_is_no_fault_of_media_behind_it():
    assert media_chunks(tokens(60), FILLED, ATTACHMENTS, 30)


def test_a_prompt_that_ends_with_media_cannot_be_answered():
    with pytest.raises(RequestError, match=r"^messages\[1\].content\[2\]: the prompt ends with it"):
        media_chunks(tokens(48), FILLED, ATTACHMENTS, 100)


@dataclass
class Counting:
    """A projector to which an image is as many tokens as it is wide; `seen` are the widths of those it was shown."""

    seen: list[int] = field(default_factory=list)

    def expand(self, media, where, *, n_ubatch):
        self.seen.append(media.width)
        return Expansion(media.id, (media_chunk(media.id, 0, media.width, media.width),), exact=True)


def picture(width):
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, 8)).save(file, "PNG")
    return {"role": "user", "content": [{"type": "image", "image": file.getvalue()}]}


def test_a_file_is_decoded_once_however_often_a_conversation_brings_it():
    projector = Counting()
    reader = MediaReader(projector, 512)
    first = reader.read([picture(10)])
    later = reader.read([picture(10), picture(20), picture(10)])
    assert projector.seen == [10, 20]
    assert later.keys() == {(0, 0), (1, 0), (2, 0)}
    assert first[0, 0].expansion is later[2, 0].expansion is not later[1, 0].expansion


def test_only_the_latest_files_are_remembered(monkeypatch):
    monkeypatch.setattr("runtime.attachment._MOST_KNOWN", 2)
    projector = Counting()
    reader = MediaReader(projector, 512)
    for width in (10, 20, 10, 30, 10, 20):
        reader.read([picture(width)])
    assert projector.seen == [10, 20, 30, 20]


def test_what_the_caller_does_to_a_request_later_changes_nothing():
    message = picture(10)
    (attachment,) = MediaReader(Counting(), 512).read([message]).values()
    message["content"][0].clear()
    assert decode(attachment.part).width == 10


def test_without_a_projector_the_first_part_is_named():
    content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    with pytest.raises(RequestError, match=r"^messages\[1\].content\[1\]: media \(image\), .* no projector"):
        MediaReader(None, 512).read([{"role": "user", "content": "Hello"}, {"role": "user", "content": content}])


def test_text_needs_no_projector():
    assert MediaReader(None, 512).read([{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]) == {}
