"""Images and recordings that a request brings along, and their evaluation in the tokens of its prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, final

from runtime.closing import Closing
from runtime.errors import ContextFull, RequestError
from runtime.llama import Context
from runtime.prefix import Tokens
from spanparse.media import Media, Place, media_parts, read_media
from spanparse.media.insertions import part_name
from spanparse.tokens import TokenMap
from spanparse.tokens.media import Insertion

if TYPE_CHECKING:
    from runtime.media import PreparedMedia, Projector


@final
class Attachment(Closing):
    """A media part of a request, made ready for its projector when the first chunk of it is evaluated.

    `where` names the part. Closing it frees what was made ready; it can be evaluated again.
    """

    def __init__(self, projector: Projector, media: Media, where: str) -> None:
        self.where = where
        self._projector = projector
        self.media = media
        self._prepared: PreparedMedia | None = None

    def evaluate(self, number: int, context: Context, position: int, sequence: int, n_batch: int) -> None:
        """Encode chunk `number` and append it to a sequence, at most `n_batch` tokens at once.

        Raises as `PreparedMedia.evaluate`.
        """
        if self._prepared is None:
            self._prepared = self._projector.prepare(self.media, self.where)
        self._prepared.evaluate(context, number, position, sequence=sequence, n_batch=n_batch)
        if not any(chunk.is_media for chunk in self._prepared.chunks[number + 1 :]):
            self.close()

    def close(self) -> None:
        """Free what was made ready."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None


@final
@dataclass(frozen=True, slots=True)
class MediaChunk:
    """Tokens [begin, end) of a prompt, which stand for chunk `number` of an attachment and take `n_pos` positions."""

    begin: int
    end: int
    n_pos: int
    number: int
    attachment: Attachment = field(repr=False)

    def evaluate(self, context: Context, position: int, sequence: int, n_batch: int) -> None:
        """Encode it and append it to a sequence, at most `n_batch` tokens at once; what is there must end there.

        Raises as `PreparedMedia.evaluate`.
        """
        self.attachment.evaluate(self.number, context, position, sequence, n_batch)


@final
@dataclass(frozen=True, slots=True)
class MediaStretch:
    """A chunk of media that is to be evaluated in a sequence at `position`, in a decode of its own."""

    tokens: Tokens
    position: int
    sequence: int
    chunk: MediaChunk
    logits: ClassVar[bool] = False


def read_attachments(messages: list[dict[str, Any]], projector: Projector | None) -> dict[Place, Attachment]:
    """The media of a conversation, decoded, by place.

    Raises `RequestError` naming the first part if there is no projector for it, and `spanparse.ConversationError`
    naming a part that cannot be read. No file of this machine is read.
    """
    if projector is None:
        for part in media_parts(messages):
            raise RequestError(part.where, f"media ({part.kind}), and the engine has no projector (mmproj)")
        return {}
    return {place: Attachment(projector, media, part_name(place)) for place, media in read_media(messages).items()}


def media_chunks(
    tokens: TokenMap, filled: Sequence[Insertion], attachments: Mapping[Place, Attachment], n_ctx: int
) -> tuple[MediaChunk, ...]:
    """The media in `tokens`, which were made with the insertions `filled`, ascending.

    Raises `ContextFull` naming the first that does not fit into a context of `n_ctx` tokens with what is before it,
    and `RequestError` naming what ends the prompt: libmtmd computes no logits after media.
    """
    numbers = [
        number
        for insertion in sorted(filled, key=lambda insertion: insertion.start)
        for number, chunk in enumerate(insertion.expansion.chunks)
        if chunk.is_media
    ]
    found = []
    for run, number in zip(tokens.media, numbers, strict=True):
        attachment, end = attachments[run.message, run.part], run.begin + run.n_tokens
        if run.begin <= n_ctx < end:
            raise ContextFull(tokens.count, n_ctx, attachment.where)
        found.append(MediaChunk(run.begin, end, run.n_pos, number, attachment))
        if end == tokens.count:
            raise RequestError(attachment.where, "the prompt ends with it, an answer needs text in front")
    return tuple(found)
