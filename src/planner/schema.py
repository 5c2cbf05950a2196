"""Requests and plans as JSON. The only module that needs pydantic; nothing imports it before JSON is asked for."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from planner.budget import Budget, Costs
from planner.errors import PlanRequestError
from planner.memory import MemoryKind
from planner.offsets import Candidate, Existing, Kind, Likely
from planner.outcome import Comparison, Plan
from planner.request import PlanRequest, PolicyName

Offset = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_COSTS = Costs()
_STRICT = ConfigDict(strict=True, extra="forbid")


class _CandidateDocument(BaseModel):
    """An offset where a state may be saved."""

    model_config = _STRICT
    offset: Offset = Field(description="tokens before it")
    kind: Kind = Field("custom", description="what begins there")
    stable: bool | None = Field(None, description="whether appended messages leave the tokens before it as they are")
    message: Natural | None = Field(None, description="index of the message that begins there")


class _LikelyDocument(BaseModel):
    """An offset at which the next prompt may part from this one."""

    model_config = _STRICT
    offset: Natural = Field(description="tokens before it")
    weight: Annotated[float, Field(ge=0, le=1)] = Field(description="how probable that is")


class _ExistingDocument(BaseModel):
    """A stored checkpoint."""

    model_config = _STRICT
    offset: Offset = Field(description="tokens that its state stands for")
    bytes: Natural = Field(0, description="its size; 0 counts as state_bytes")
    age: Natural = Field(0, description="requests since it was saved")
    identity: str | None = Field(None, description="the caller's name for it, handed back")
    shared: Natural | None = Field(None, description="tokens of it that the prompt has; null: all")
    branch: Natural = Field(0, description="the same for states of the same other conversation")
    returns: Seconds = Field(0.0, description="what the last plan of its conversation gave for it")


class _BudgetDocument(BaseModel):
    """What may be stored at any moment; null is no limit."""

    model_config = _STRICT
    checkpoints: Natural | None = Field(None, description="how many, the tip of the most recent request apart")
    bytes: Natural | None = Field(None, description="bytes of them in all")


class _CostsDocument(BaseModel):
    """Seconds."""

    model_config = _STRICT
    seconds_per_token: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        _COSTS.seconds_per_token, description="evaluating a token"
    )
    per_break: Seconds = Field(_COSTS.per_break, description="a forced batch boundary inside the prompt")
    per_save: Seconds = Field(_COSTS.per_save, description="copying one state out")
    per_restore: Seconds = Field(_COSTS.per_restore, description="copying one state back")


class _SizeDocument(BaseModel):
    """A point of the bytes of a checkpoint as a function of its length."""

    model_config = _STRICT
    tokens: Natural
    bytes: Offset


class _Range(BaseModel):
    """A half-open range of tokens."""

    model_config = _STRICT
    begin: Natural
    end: Natural


class RequestDocument(BaseModel):
    """One prompt to be evaluated, and what the memory and the store hold before it. Offsets count tokens."""

    model_config = _STRICT
    schema_version: Literal[1] = 1
    prompt_tokens: Offset = Field(description="length of the prompt")
    candidates: list[_CandidateDocument] = Field([], description="offsets of the prompt where saving makes sense")
    common_prefix: Natural = Field(0, description="tokens that the prompt shares with what the memory holds")
    live: Natural | None = Field(None, description="tokens that the memory holds, if it can be continued")
    existing: list[_ExistingDocument] = Field([], description="the stored checkpoints")
    forbidden: list[_Range] = Field([], description="media: no state is saved inside")
    wanted: list[Offset] = Field([], description="offsets that a client declared")
    likely: list[_LikelyDocument] = Field([], description="where the next prompt is expected to part from this one")
    block: Offset = Field(1, description="states are of use at multiples of so many tokens")
    memory: MemoryKind = Field("hybrid", description="a dense memory can be cut anywhere, the others cannot")
    window: Offset | None = Field(None, description="tokens of the sliding window")
    budget: _BudgetDocument = Field(_BudgetDocument(checkpoints=8), description="what may be stored")
    state_bytes: Natural | list[_SizeDocument] = Field(
        0, description="bytes of one checkpoint, or points of a function of its length that is linear between them"
    )
    costs: _CostsDocument = Field(_CostsDocument(), description="what things cost")
    n_batch: Offset = Field(2048, description="llama.cpp's logical batch, in tokens")
    n_ubatch: Offset = Field(512, description="llama.cpp's physical batch, in tokens")
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="seconds after which the client gives up"
    )
    policy: PolicyName = Field("adaptive", description="how checkpoints are placed")
    min_step: Natural = Field(8192, description="spacing of the user messages that `barriers` saves")
    every_n: Offset = Field(8192, description="step of `every-n`")

    def request(self) -> PlanRequest:
        """The same as a `PlanRequest`; raises PlanRequestError if the values contradict each other."""
        plain = {name: getattr(self, name) for name in type(self).model_fields if name != "schema_version"}
        return PlanRequest(
            **{
                **plain,
                "candidates": tuple(Candidate(**c.model_dump()) for c in self.candidates),
                "existing": tuple(Existing(**e.model_dump()) for e in self.existing),
                "forbidden": tuple((r.begin, r.end) for r in self.forbidden),
                "wanted": tuple(self.wanted),
                "likely": tuple(Likely(**e.model_dump()) for e in self.likely),
                "budget": Budget(**self.budget.model_dump()),
                "state_bytes": _state_bytes(self.state_bytes),
                "costs": Costs(**self.costs.model_dump()),
            }
        )


def _state_bytes(given: int | list[_SizeDocument]) -> int | tuple[tuple[int, int], ...]:
    return given if isinstance(given, int) else tuple((point.tokens, point.bytes) for point in given)


class _RestoreDocument(BaseModel):
    """The start of the evaluation."""

    model_config = ConfigDict(from_attributes=True)
    offset: int
    why: str
    source: Literal["live", "cut", "checkpoint"]
    identity: str | None


class _StepDocument(BaseModel):
    """Tokens [begin, end) to evaluate, and whether to save the state then."""

    model_config = ConfigDict(from_attributes=True)
    begin: int
    end: int
    save: bool
    kind: Kind
    reason: str


class _EvictionDocument(BaseModel):
    """A checkpoint to delete, at the latest before the save at `before`."""

    model_config = ConfigDict(from_attributes=True)
    offset: int
    reason: str
    before: int | None
    identity: str | None


class PlanDocument(BaseModel):
    """What to restore, evaluate, save and delete for one prompt, and what that is expected to be worth."""

    model_config = ConfigDict(from_attributes=True)
    schema_version: Literal[1] = 1
    policy: PolicyName
    memory: MemoryKind
    prompt_tokens: int
    restore: _RestoreDocument | None
    steps: list[_StepDocument] = Field(description="tile the tokens from the restored offset to the prompt's end")
    evict: list[_EvictionDocument]
    kept: list[int] = Field(description="offsets stored once the plan has run")
    expected_replay_tokens: float = Field(description="of the next prompt, unless it extends this one")
    expected_replay_seconds: float = Field(description="with the restore it takes")
    overhead_seconds: float = Field(description="what the breaks and saves of the steps cost")
    optimal_replay_tokens: float = Field(description="the least that the budget allows")
    optimal_replay_seconds: float
    baselines: dict[str, float] = Field(description="expected replay tokens of the other policies")
    baseline_seconds: dict[str, float]


def read_request(text: str | bytes) -> PlanRequest:
    """Read a request in the form that `json_schema("request")` describes.

    Raises PlanRequestError, naming the field, if the text is not such a request.
    """
    try:
        document = RequestDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise PlanRequestError(_path(first["loc"]), first["msg"]) from None
    return document.request()


def write_plan(plan: Plan, comparison: Comparison) -> str:
    """A plan, and what `compare` says of it, in the form that `json_schema("plan")` describes."""
    given = {field.name: getattr(each, field.name) for each in (plan, comparison) for field in fields(each)}
    return PlanDocument.model_validate(given).model_dump_json(indent=1)


def json_schema(which: Literal["request", "plan"] = "request") -> dict[str, Any]:
    """The JSON schema of what `read_request` reads, or of what `write_plan` writes."""
    model = RequestDocument if which == "request" else PlanDocument
    return model.model_json_schema(mode="validation" if which == "request" else "serialization")


def _path(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return path.removeprefix(".") or "request"
