"""The result types of a parse: which characters of the rendered prompt belong to whom.

All offsets count characters (Python code points) of `Rendering.text`; every range is half-open, [start, end).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from spanparse.deferred import Deferred

_FieldKind = Literal["reasoning", "content", "tool_call", "name", "arguments", "tool_result", "field", "media"]
_TemplateKind = Literal["header", "delimiter", "trailer", "bos", "default_text"]
PartKind = Literal[_FieldKind, "tools", "tool", _TemplateKind]

_RoleStart = Literal["system_start", "developer_start", "user_start", "assistant_start", "tool_start"]
BarrierKind = Literal["system_end", _RoleStart, "generation_prompt", "preamble"]

ReasonKind = Literal["render-differs", "owner-unclear", "origin-lost", "origin-mismatch", "raw-text"]
_Deed = Literal["merged", "dropped", "hoisted", "moved", "repeated", "trimmed", "shortened", "transformed"]
_Doubt = Literal["quotes-marker", "looks-like-token", "role-again", "role-late", "no-call", "no-end", "no-marker"]
NoteKind = Literal[_Deed, _Doubt]

ROLE_STARTS: Final[Mapping[str, BarrierKind]] = {
    "system": "system_start",
    "developer": "developer_start",
    "user": "user_start",
    "assistant": "assistant_start",
    "tool": "tool_start",
}
"""What a barrier is in front of a message of each role."""
LEADING_ROLES: Final = ("system", "developer")
"""Roles of the texts that stand in front of a conversation."""
REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message that hold its reasoning, the usual one first."""

_RAW_NOTES: Final[Mapping[NoteKind, str]] = {
    "quotes-marker": "may quote a marker: {}",
    "looks-like-token": "holds what looks like a control token: {}",
    "role-again": "second {} message in a row: the one before may quote a marker",
    "role-late": "{} message in the middle: the one before may quote a marker",
    "no-call": "tool message without a call before it: it may be another's that quotes a marker",
    "no-end": "messages of {} have no end marker: quoted start markers cannot be told",
    "no-marker": "no known marker in this text",
}
"""The words of notes on a text whose request is not known."""


class Reason(NamedTuple):
    """Why a span is not exact.

    For `origin-lost`, `field` is the path in the request of the value whose marks were lost (`messages[1].content`) and
    `operation` is what the template did to it (`format`); both are None where that is not known.
    """

    kind: ReasonKind
    field: str | None = None
    operation: str | None = None

    def __str__(self) -> str:
        """`origin-lost (messages[1].content, format)`."""
        detail = ", ".join(filter(None, (self.field, self.operation)))
        return f"{self.kind} ({detail})" if detail else self.kind


class Note(NamedTuple):
    """What a template did to a message, or to one `field` of it; None is the whole message.

    `field` is a path relative to the message (`content[1]`), or `tools` in a note on the request. Notes on a text whose
    request is not known have kinds of their own; there, `field` is the marker or the role that the note is about.
    """

    kind: NoteKind
    field: str | None = None

    def __str__(self) -> str:
        """`merged`, `content[1] trimmed`."""
        if self.kind in _RAW_NOTES:
            return _RAW_NOTES[self.kind].format(self.field)
        return self.kind if self.field is None else f"{self.field} {self.kind}"


class Piece(NamedTuple):
    """One contiguous stretch of text, [start, end) in characters."""

    start: int
    end: int


class Part(NamedTuple):
    """What one stretch of a message is.

    `source` is the path of the field the text came from, relative to its message (`content`, `content[1].text`,
    `tool_calls[0].function.arguments`) or, for tools, to the request (`tools[2]`); None for text of the template's own.
    `index` counts tool calls, media parts and tools from 0.
    """

    kind: PartKind
    start: int
    end: int
    source: str | None = None
    index: int | None = None  # type: ignore[assignment] # nobody asks a part for the place of a value
    children: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """All the text one message is responsible for; no pieces at all if the template dropped it.

    `reason` says why it is not exact.
    """

    index: int
    role: str
    pieces: tuple[Piece, ...]
    parts: tuple[Part, ...]
    reason: Reason | None = None
    notes: tuple[Note, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the pieces and the sources of the parts are proven."""
        return self.reason is None

    @property
    def start(self) -> int | None:
        """First character of the first piece; None if dropped."""
        return self.pieces[0].start if self.pieces else None

    @property
    def end(self) -> int | None:
        """One past the last character of the last piece; None if dropped."""
        return self.pieces[-1].end if self.pieces else None


class Barrier(NamedTuple):
    """An offset above 0 where the text passes from one owner to another.

    `kind` says what begins there, except that the end of system text and tools is always `system_end`.
    `message` is the message that begins there, None for the generation prompt and the preamble.
    `stable`: the prefix up to here stays byte-identical however user, assistant and tool messages are appended, under
    the same kwargs; None where that was not looked into. A system message that comes later is not reckoned with: a
    template that puts all of them in front would have no stable barrier, and what it rewrites otherwise would not show.
    """

    offset: int
    kind: BarrierKind
    message: int | None
    stable: bool | None = None


@dataclass(frozen=True, slots=True)
class Preamble:
    """Text before the first message that no message owns: BOS, default system text, tools no message surrounds."""

    start: int
    end: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Spans:
    """What the stretches of a rendered prompt are; `Rendering` says what each field holds."""

    preamble: Preamble
    messages: tuple[MessageSpan, ...]
    barriers: tuple[Barrier, ...]
    system_end: int | None
    caller_text: tuple[Piece, ...] = ()
    notes: tuple[Note, ...] = ()
    generation_parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered prompt with its spans.

    `text` is always the plain render of the unchanged template. Pieces, preamble and generation prompt tile it.
    `reason` says why it is not exact. `spans` are worked out when the first of them is read, of the messages as they
    were at the time of the parse: callers that read text and exactness alone save a third of the time.
    """

    text: str
    family: str
    reason: Reason | None
    generation_prompt: Piece | None
    spans: Deferred[Spans]

    @property
    def exact(self) -> bool:
        """Whether all spans are."""
        return self.reason is None

    @property
    def preamble(self) -> Preamble:
        """The text before the first message that no message owns."""
        return self.spans.value.preamble

    @property
    def messages(self) -> tuple[MessageSpan, ...]:
        """One span for each message of the request."""
        return self.spans.value.messages

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """Where the text passes from one owner to another, in text order."""
        return self.spans.value.barriers

    @property
    def system_end(self) -> int | None:
        """The later end of the leading system (developer) messages and the tools block, None without either."""
        return self.spans.value.system_end

    @property
    def caller_text(self) -> tuple[Piece, ...]:
        """The ranges that are not proven to be the template's own, sorted and disjoint.

        Proven are its constants, special tokens of the model's own configuration, and in a frame of constants a role
        that the template knows. All else is the caller's: fields, documents, other template variables, dates, numbers.
        """
        return self.spans.value.caller_text

    @property
    def notes(self) -> tuple[Note, ...]:
        """What holds for no single message: `tools dropped`."""
        return self.spans.value.notes

    @property
    def generation_parts(self) -> tuple[Part, ...]:
        """The parts of the generation prompt: its header, reasoning that it begins, what closes that (`delimiter`)."""
        return self.spans.value.generation_parts
