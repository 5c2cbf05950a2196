"""What an analysis says about a template.

Texts are the template's own, white space and all; `None` stands for what was not found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Kept = Literal["always", "since the last user message", "in the last message only", "never"]
Inline = Literal["kept", "dropped from earlier turns", "dropped"]
Changes = Literal["never", "every year", "every month", "every day", "within the day"]


@dataclass(frozen=True, slots=True)
class RoleMarkers:
    """What the template writes around the messages of one role.

    `start` is what all headers of the role have in common at their beginning, `end` the same of trailers; where they
    have nothing in common, the most usual one. `other_starts` and `other_ends` are those that begin otherwise.
    `headers` are whole headers, the most usual first; `merged_with` are the roles whose turn it may share. `joint` is
    what stands between two messages of the role in one turn: the end of one and the beginning of the next. `{id}` and
    `{name}` stand for those of a tool call.
    """

    role: str
    start: str | None
    end: str | None
    other_starts: tuple[str, ...] = ()
    other_ends: tuple[str, ...] = ()
    merged_with: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    joint: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GenerationPrompt:
    """What `add_generation_prompt` adds; `prefill` is what of it follows the start marker of assistant messages."""

    text: str
    prefill: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How an assistant message's reasoning is written.

    `fields` are the message keys that the template reads it from. `kept` says which messages still show it once the
    conversation goes on. `inline` says what becomes of reasoning that stands in the content between <think> tags.
    `needs` are variables without which the template shows no reasoning.
    """

    fields: tuple[str, ...]
    start: str | None
    end: str | None
    kept: Kept
    inline: Inline
    needs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """How tool calls are written: `section_start` (`start` name `separator` arguments `end`)* `section_end`.

    `between` stands between two calls, None if two at once are refused; `{id}` is the call's own id, or the number that
    the template counts it by. `arguments` says how an object of arguments is written (`own` is a notation of the
    template's), `string_arguments` what becomes of arguments that are JSON text already, None where the template
    refuses them.
    """

    section_start: str
    start: str
    separator: str
    end: str
    between: str | None
    section_end: str
    arguments: Literal["json", "python", "own"]
    string_arguments: Literal["verbatim", "encoded again", "rewritten", "dropped"] | None


@dataclass(frozen=True, slots=True)
class ToolsBlock:
    """Where the tool definitions stand in one situation.

    `role` is that of the message whose span holds them, None for the preamble. `which` tells that message among those
    of its role (`only`, `first`, `last`, `other`). `place` is relative to the message's own text. `start` and `end` are
    the template's words between them and the text or border of the message on either side, None in the preamble.
    """

    situation: str
    role: str | None
    which: Literal["only", "first", "last", "other"] | None
    place: Literal["before the text", "after the text", "no text"] | None
    format: Literal["json", "indented json", "python", "own"]
    separate: bool
    start: str | None
    end: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two renderings of a conversation.

    `where` is `preamble`, `generation prompt`, `tools` or a role; `messages` the indices concerned. `removed` and
    `added` are the texts where one takes the other's place. `says` tells it in words.
    """

    where: str
    messages: tuple[int, ...]
    removed: str
    added: str
    says: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What giving a template variable `value` changes, compared with leaving it out.

    `refused` holds the template's words if it then refuses a conversation that it takes otherwise. `together_with` are
    the variables that had to be set too for anything to change.
    """

    value: Any
    changes: tuple[Change, ...]
    refused: str | None = None
    together_with: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the template reads from its caller, with the effect of every value that was tried."""

    name: str
    effects: tuple[Effect, ...]

    @property
    def matters(self) -> bool:
        """Whether any value changed anything."""
        return any(effect.changes or effect.refused for effect in self.effects)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the template does with one shape of conversation.

    `refused` holds its own words, `message` the index they are about where known; `loses` names what it renders
    nothing of.
    """

    shape: str
    refused: str | None = None
    message: int | None = None
    loses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Habit:
    """Something the template does to messages: `what` it does, to which `role` and `field` (None: whole messages).

    `shapes` are the conversations that showed it.
    """

    what: str
    role: str
    field: str | None
    shapes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A `…_token` variable that the template reads; `given` is False where `text` only stands in for it."""

    name: str
    text: str
    given: bool


@dataclass(frozen=True, slots=True)
class Bos:
    """The beginning-of-sequence text; `written` tells how often it stands in a conversation of two user turns."""

    text: str
    from_variable: bool
    written: int


@dataclass(frozen=True, slots=True)
class Clock:
    """Whether the prompt depends on the date or time, and `where` it stands (`preamble` or a role)."""

    changes: Changes
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Medium:
    """What a content part of type `kind` becomes: its `placeholder`, or why it is refused; neither if it is dropped."""

    kind: str
    placeholder: str | None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """The two markers that llama.cpp's general method finds, empty where it finds none."""

    user_start: str
    assistant_start: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """All findings about one template.

    `accepts_nothing` holds its words if no conversation that was tried renders; then most findings are empty.
    `content_as` says in which form messages were given their text. `required` are variables that had to be given for
    any conversation to render, with the value that was given. `inexact` are the shapes whose spans are not proven,
    with the reason. `control_tokens` are those that the template writes by itself, sorted.
    """

    source: str
    sha256: str
    variant: str | None
    family: str
    accepts_nothing: str | None
    content_as: Literal["text", "parts"]
    special_tokens: tuple[SpecialToken, ...]
    verdicts: tuple[Verdict, ...]
    llama_cpp: LlamaCpp
    required: tuple[tuple[str, Any], ...] = ()
    roles: tuple[RoleMarkers, ...] = ()
    generation_prompt: GenerationPrompt | None = None
    default_text: str | None = None
    reasoning: Reasoning | None = None
    tool_calls: ToolCalls | None = None
    tools: tuple[ToolsBlock, ...] = ()
    variables: tuple[Variable, ...] = ()
    habits: tuple[Habit, ...] = ()
    bos: Bos | None = None
    clock: Clock = Clock("never")
    media: tuple[Medium, ...] = ()
    inexact: tuple[tuple[str, str], ...] = ()
    control_tokens: tuple[str, ...] = ()

    def markers_of(self, role: str) -> RoleMarkers | None:
        """The markers of `role`, None if the template shows none of its messages."""
        return next((found for found in self.roles if found.role == role), None)


SCHEMA_VERSION: Final = 1


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The whole document."""
    names = ("source", "sha256", "family", "variant")
    document = asdict(analysis)
    template = {name: document.pop(name) for name in names}
    document["roles"] = {found.pop("role"): found for found in document["roles"]}
    document["required"] = _settings(analysis.required)
    if analysis.reasoning is not None:
        document["reasoning"]["needs"] = _settings(analysis.reasoning.needs)
    for shown, variable in zip(document["variables"], analysis.variables, strict=True):
        shown["matters"] = variable.matters
        for effect in shown["effects"]:
            effect["together_with"] = _settings(effect["together_with"])
    document["shapes"] = [
        {
            "shape": verdict.shape,
            "accepted": verdict.refused is None,
            "reason": verdict.refused,
            "message": verdict.message,
            "loses": verdict.loses,
        }
        for verdict in analysis.verdicts
    ]
    del document["verdicts"]
    document["inexact"] = [{"shape": shape, "reason": reason} for shape, reason in analysis.inexact]
    return {"schema_version": SCHEMA_VERSION, "template": template, **document}


def _settings(pairs: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in pairs]
