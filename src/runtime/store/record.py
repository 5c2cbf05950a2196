"""A stored state and how it is written down: a head of fixed size, then logits, then the state.

    magic (8 bytes) | format version (4) | length of the description (4) | digest of the head without this field (16)
    description in JSON, zeros up to 4,096 bytes
    logits (4 bytes each) | state

The same bytes on disk and in Redis. Numbers are little-endian; logits and state as the identity's byte order says.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import asdict, dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.llama import State
from runtime.store.errors import StateRefused
from runtime.store.identity import FORMAT_VERSION, Identity
from runtime.store.name import Name

HEAD_BYTES = 4096
"""A page, so that what follows is aligned."""

Logits = npt.NDArray[np.float32]

_MAGIC = b"SPANSTAT"
_PRELUDE = struct.Struct("<8sII")
_DIGEST_BYTES = 16
_BODY = _PRELUDE.size + _DIGEST_BYTES

_Size = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A full state of the memory after exactly the tokens that `name` stands for.

    `logits`, of shape (n_vocab,), follow the last of these tokens; None if they were not computed.
    """

    name: Name
    state: State = field(repr=False)
    logits: Logits | None = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes that the record takes wherever it is stored."""
        return HEAD_BYTES + self.state.nbytes + (0 if self.logits is None else self.logits.nbytes)


class Head(BaseModel):
    """What the head of a record says. Sizes in bytes, checksums CRC-32."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: str
    identity: dict[str, str]
    logits_bytes: _Size
    logits_checksum: _Size
    state_bytes: _Size
    state_checksum: _Size

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return HEAD_BYTES + self.logits_bytes + self.state_bytes

    def check(self, logits: bytes, state: State) -> Logits | None:
        """The logits, once they and the state proved to be what was written. Raises `StateRefused`."""
        if zlib.crc32(logits) != self.logits_checksum:
            raise StateRefused(self.name, "the checksum of its logits is wrong")
        if zlib.crc32(state.data) != self.state_checksum:
            raise StateRefused(self.name, "the checksum of its state is wrong")
        if len(logits) % np.dtype(np.float32).itemsize:
            raise StateRefused(self.name, f"its logits take {len(logits)} bytes, which is no number of them")
        return np.frombuffer(logits, dtype=np.float32) if logits else None


def write_head(record: Record, identity: Identity) -> bytes:
    """The head of `record`, `HEAD_BYTES` long."""
    logits = logits_bytes(record)
    description = Head(
        name=str(record.name),
        identity=asdict(identity),
        logits_bytes=logits.nbytes,
        logits_checksum=zlib.crc32(logits),
        state_bytes=record.state.nbytes,
        state_checksum=zlib.crc32(record.state.data),
    )
    text = description.model_dump_json().encode()
    prelude = _PRELUDE.pack(_MAGIC, FORMAT_VERSION, len(text))
    body = text.ljust(HEAD_BYTES - _BODY, b"\0")
    return prelude + _digest(prelude, body) + body


def logits_bytes(record: Record) -> memoryview:
    """The bytes of the record's logits, not copied."""
    return memoryview(b"") if record.logits is None else np.ascontiguousarray(record.logits).view(np.uint8).data


def read_head(data: bytes, name: Name) -> Head:
    """What the head `data` of the record `name` says. Raises `StateRefused` naming what is wrong with it."""
    if len(data) < HEAD_BYTES:
        raise StateRefused(str(name), f"cut short: {len(data)} bytes are less than its head")
    magic, version, length = _PRELUDE.unpack_from(data)
    if magic != _MAGIC:
        raise StateRefused(str(name), "not a stored state: it does not begin as one")
    if version != FORMAT_VERSION:
        raise StateRefused(str(name), f"its format version is {version}, this reads {FORMAT_VERSION}")
    prelude, digest, body = data[: _PRELUDE.size], data[_PRELUDE.size : _BODY], data[_BODY:HEAD_BYTES]
    if _digest(prelude, body) != digest:
        raise StateRefused(str(name), "the checksum of its head is wrong")
    try:
        head = Head.model_validate_json(body[:length])
    except ValidationError as error:
        raise StateRefused(str(name), f"its head cannot be read ({error.errors()[0]['msg']})") from error
    if head.name != str(name):
        raise StateRefused(str(name), f"its head says that it is {head.name}")
    return head


def _digest(prelude: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(prelude + body, digest_size=_DIGEST_BYTES).digest()
