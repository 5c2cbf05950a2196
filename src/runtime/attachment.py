"""Images and recordings that a request brings along, and their evaluation in the tokens of its prompt."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from runtime.closing import Closing
from runtime.errors import ContextFull, RequestError
from runtime.llama import Context
from runtime.prefix import Tokens
from spanparse.media import Media, MediaPart, Place, decode, media_parts
from spanparse.tokens import TokenMap
from spanparse.tokens.media import Expansion, Insertion

if TYPE_CHECKING:
    from runtime.media import PreparedMedia, Projector

_MOST_KNOWN: Final = 256
"""Files of which is remembered what they become, some 40 KB each."""


@final
class Attachment(Closing):
    """A media part of a request, and the `expansion` that it becomes in a prompt.

    `part` holds its bytes. It is decoded and made ready for its projector when the first chunk of it is evaluated.
    Closing it frees what was made ready; it can be evaluated again.
    """

    def __init__(
        self, projector: Projector, part: MediaPart, expansion: Expansion, decoded: Media | None = None
    ) -> None:
        self.part = part
        self.expansion = expansion
        self._projector = projector
        self._decoded = decoded
        self._prepared: PreparedMedia | None = None

    @property
    def where(self) -> str:
        """The part's path in the request."""
        return self.part.where

    def evaluate(self, number: int, context: Context, position: int, sequence: int, n_batch: int) -> None:
        """Encode chunk `number` and append it to a sequence, at most `n_batch` tokens at once.

        Raises as `PreparedMedia.evaluate`.
        """
        if self._prepared is None:
            self._prepared = self._projector.prepare(self._decoded or decode(self.part), self.where)
        self._prepared.evaluate(context, number, position, sequence=sequence, n_batch=n_batch)
        if not any(chunk.is_media for chunk in self._prepared.chunks[number + 1 :]):
            self.close()

    def close(self) -> None:
        """Free what was made ready."""
        self._decoded = None
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
        """Encode it and append it to a sequence that ends at `position`, at most `n_batch` tokens at once.

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


@final
class MediaReader:
    """Reads the media of requests for a projector and micro-batches of `n_ubatch` tokens.

    What the latest files become is remembered: a conversation brings its images along with every request, and most of
    them are in the memory already. Several threads may use it.
    """

    def __init__(self, projector: Projector | None, n_ubatch: int) -> None:
        self._projector = projector
        self._n_ubatch = n_ubatch
        self._known: OrderedDict[bytes, Expansion] = OrderedDict()
        self._lock = Lock()

    def read(self, messages: list[dict[str, Any]]) -> dict[Place, Attachment]:
        """The media of a conversation by place. No file of this machine is read.

        Raises `RequestError` naming the first part if there is no projector for it, or as `Projector.expand`, and
        `spanparse.ConversationError` naming a part that cannot be read.
        """
        return {(part.message, part.place): self._read(part) for part in media_parts(messages)}

    def _read(self, part: MediaPart) -> Attachment:
        kind = part.kind
        if self._projector is None:
            raise RequestError(part.where, f"media ({kind}), and the engine has no projector (mmproj)")
        data = part.read(files=False)
        # What the caller does to the request meanwhile changes nothing.
        part = replace(part, fields={"type": kind, kind: data})
        key = blake2b(data, digest_size=16, person=kind.encode()).digest()
        with self._lock:
            expansion = self._known.get(key)
        decoded = None
        if expansion is None:
            decoded = decode(part)
            expansion = self._projector.expand(decoded, part.where, n_ubatch=self._n_ubatch)
        with self._lock:
            self._known[key] = expansion
            self._known.move_to_end(key)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return Attachment(self._projector, part, expansion, decoded)


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
            raise RequestError(attachment.where, "the prompt ends with it, and an answer needs text behind it")
    return tuple(found)
