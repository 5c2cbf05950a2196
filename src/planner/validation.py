"""What a `PlanRequest` may not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from planner.errors import PlanRequestError
from planner.request import Kind, MemoryKind, PolicyName

if TYPE_CHECKING:
    from planner.request import PlanRequest

_LONGEST = 2**31 - 1
"""Positions are 32-bit integers in llama.cpp."""

_MOST_PARTS = 2**16
"""Batches, or multiples of `every_n`, in a prompt: a plan goes through them one by one."""


def check(request: PlanRequest) -> None:
    """Raise PlanRequestError, naming the field, if a value of `request` is out of its range."""
    n = request.prompt_tokens
    _integer("prompt_tokens", n, 1, _LONGEST)
    _integer("common_prefix", request.common_prefix, 0, n)
    _choice("memory", request.memory, get_args(MemoryKind))
    _choice("policy", request.policy, get_args(PolicyName))
    for name in ("n_batch", "n_ubatch", "every_n"):
        _integer(name, getattr(request, name), 1)
        if name != "n_ubatch" and n // getattr(request, name) > _MOST_PARTS:
            raise PlanRequestError(name, f"divides {n} tokens into more than {_MOST_PARTS} parts")
    _integer("min_step", request.min_step, 0)
    _check_state_bytes(request)
    if request.timeout is not None and not 0 < request.timeout < float("inf"):
        raise PlanRequestError("timeout", f"{request.timeout} is not a number of seconds above 0")
    if request.live is not None:
        _integer("live", request.live, 0)
    if request.window is not None:
        _integer("window", request.window, 1)
    for i, candidate in enumerate(request.candidates):
        _integer(f"candidates[{i}].offset", candidate.offset, 1, n)
        _choice(f"candidates[{i}].kind", candidate.kind, get_args(Kind))
    _check_existing(request)
    for i, (begin, end) in enumerate(request.forbidden):
        _integer(f"forbidden[{i}].begin", begin, 0, n)
        _integer(f"forbidden[{i}].end", end, begin, n)
    for i, offset in enumerate(request.wanted):
        _integer(f"wanted[{i}]", offset, 1, n)
    _integer("block", request.block, 1)
    for i, likely in enumerate(request.likely):
        _integer(f"likely[{i}].offset", likely.offset, 0, n)
        if not 0 <= likely.weight <= 1:
            raise PlanRequestError(f"likely[{i}].weight", f"{likely.weight} is not a probability")
    _check_budget(request)
    for name in ("seconds_per_token", "per_break", "per_save", "per_restore"):
        seconds = getattr(request.costs, name)
        if not 0 <= seconds < float("inf"):
            raise PlanRequestError(f"costs.{name}", f"{seconds} is not a number of seconds")
    if request.costs.seconds_per_token == 0:
        raise PlanRequestError("costs.seconds_per_token", "must be above 0: it is what a checkpoint saves")


def _check_existing(request: PlanRequest) -> None:
    seen: set[int] = set()
    for i, existing in enumerate(request.existing):
        _integer(f"existing[{i}].offset", existing.offset, 1)
        _integer(f"existing[{i}].bytes", existing.bytes, 0)
        _integer(f"existing[{i}].age", existing.age, 0)
        _integer(f"existing[{i}].branch", existing.branch, 0)
        if not 0 <= existing.returns < float("inf"):
            raise PlanRequestError(f"existing[{i}].returns", f"{existing.returns} is not a number of returns")
        if existing.shared is not None:
            _integer(f"existing[{i}].shared", existing.shared, 0)
        if existing.beside:
            if existing.identity is None:
                raise PlanRequestError(f"existing[{i}].identity", "a state of another conversation needs one")
            continue
        if existing.offset in seen:
            raise PlanRequestError(f"existing[{i}].offset", f"{existing.offset} is listed twice")
        seen.add(existing.offset)


def _check_state_bytes(request: PlanRequest) -> None:
    if isinstance(request.state_bytes, int):
        _integer("state_bytes", request.state_bytes, 0)
        return
    before = -1
    for i, (tokens, size) in enumerate(request.state_bytes):
        _integer(f"state_bytes[{i}].tokens", tokens, before + 1)
        _integer(f"state_bytes[{i}].bytes", size, 1)
        before = tokens


def _check_budget(request: PlanRequest) -> None:
    if request.budget.checkpoints is not None:
        _integer("budget.checkpoints", request.budget.checkpoints, 0)
    if request.budget.bytes is not None:
        _integer("budget.bytes", request.budget.bytes, 0)
        if request.state_bytes in (0, ()) and request.memory != "dense":
            raise PlanRequestError("state_bytes", "a budget in bytes needs the bytes of one checkpoint")


def _integer(name: str, value: object, low: int, high: int | None = None) -> None:
    # bool is an int to isinstance, and True as an offset is surely a mistake.
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlanRequestError(name, f"{value!r} is not an integer")
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"in {low} … {high}"
        raise PlanRequestError(name, f"{value} must be {bounds}")


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PlanRequestError(name, f"{value!r} is none of {', '.join(allowed)}")
