"""The result types of a prediction. All counts are of characters (code points) unless they say tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from spanparse.prediction.continuation import ContinuationName
from spanparse.spans import Reason

Fate = Literal["dropped", "moved", "rewritten"]
RemedyKind = Literal["kwarg", "reasoning", "placement", "order"]
HazardName = Literal["clock", "volatile_line", "tools_order"]


class Divergence(NamedTuple):
    """Where the next prompt parts from the present one.

    `message` is an index into the present request, None for the preamble and the generation prompt. `field` is the path
    of a field of that message (`reasoning_content`, `content[1].text`) or, for tools, of the request (`tools[2]`); for
    the template's own text it is the part's kind (`header`, `trailer`, `generation_prompt`, …). Template text around a
    field that does not come back counts as that field. `offset` counts the characters of the field in front of the
    divergence, those of its rendered form for what is no text; None where its text was changed on the way.
    """

    message: int | None
    field: str
    offset: int | None


class Change(NamedTuple):
    """What became of one field that the present prompt shows and the client sends again unchanged.

    `chars` is its length in the present prompt, from the divergence on if that falls inside. `why` is a sentence.
    """

    message: int | None
    field: str
    what: Fate
    chars: int
    why: str


class Remedy(NamedTuple):
    """Something that keeps more, confirmed by rendering. The counts are those with it applied to both requests."""

    kind: RemedyKind
    text: str
    kept_chars: int
    lost_chars: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What of the present prompt one continuation keeps.

    `kept_chars` is the length of the common prefix of the two prompts, `lost_chars` the rest of the present one; the
    tokens likewise, None without a tokenizer. All are None if there is no such next prompt, and `reason` says why: the
    template's own words, or what the conversation lacks. `diverges` is None if everything is kept.
    """

    name: ContinuationName
    kept_chars: int | None = None
    lost_chars: int | None = None
    kept_tokens: int | None = None
    lost_tokens: int | None = None
    diverges: Divergence | None = None
    changes: tuple[Change, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something in the present prompt that may differ in the next one although the conversation only goes on.

    The counts say what the very same conversation keeps then; `text` says what the hazard is.
    """

    name: HazardName
    text: str
    kept_chars: int
    lost_chars: int
    diverges: Divergence | None
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the next request will keep of the present one's prompt.

    `exact` and `reason` are the parse's: they qualify `diverges` and `changes`; counts of characters are always those
    of plain renders. `renders` counts the plain renders that the prediction cost beside the parse. `unfinished` is the
    limit that the search for remedies and hazards ran into, None if it came to its end.
    """

    prompt_chars: int
    prompt_tokens: int | None
    exact: bool
    reason: Reason | None
    continuations: tuple[Outcome, ...]
    hazards: tuple[Hazard, ...]
    renders: int
    unfinished: str | None = None

    def outcome(self, name: ContinuationName) -> Outcome:
        """The outcome of one continuation; there is one for every name."""
        return next(outcome for outcome in self.continuations if outcome.name == name)


def to_json(prediction: Prediction) -> dict[str, Any]:
    """The document that `predict --json` writes, but for `schema_version` and what names the template."""
    return {
        **_fields(prediction),
        "reason": prediction.reason and prediction.reason.kind,
        "continuations": [_to_json(outcome) for outcome in prediction.continuations],
        "hazards": [_to_json(hazard) for hazard in prediction.hazards],
    }


def _to_json(found: Outcome | Hazard) -> dict[str, Any]:
    document = _fields(found)
    document["diverges"] = None if found.diverges is None else found.diverges._asdict()
    if isinstance(found, Outcome):
        document["changes"] = [change._asdict() for change in found.changes]
    return {**document, "remedies": [remedy.text for remedy in found.remedies]}


def _fields(value: Prediction | Outcome | Hazard) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}
