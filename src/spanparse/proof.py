"""Checks that stand between a marked render and the word exact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from spanparse.marks.loss import Loss
from spanparse.marks.marked import Marked
from spanparse.marks.origin import Origin, Path, Run
from spanparse.rendering.cursor import Findings
from spanparse.rendering.render import Request
from spanparse.shared import common_prefix
from spanparse.spans import Piece


def transfer(marked: Marked, plain: str, outside: Sequence[Piece]) -> tuple[Marked, list[Piece]]:
    """The runs of `marked` laid on a plain render that differs from it, and the stretches `outside` with them.

    Offsets inside the common prefix and the common suffix carry over; what lies between is clamped, and outside. The
    result is an approximation and must be called inexact.
    """
    text = str.__str__(marked)
    head = common_prefix(text, plain)
    tail = common_prefix(text[head:][::-1], plain[head:][::-1])
    shift = len(plain) - len(marked)

    def place(offset: int) -> int:
        if offset <= head:
            return offset
        return offset + shift if offset >= len(marked) - tail else min(offset, len(plain) - tail)

    runs = []
    at = 0
    for run in marked._runs:
        end = max(at, place(run.end))
        if end > at:
            runs.append(Run(at, end, run.origin, -1))
        at = end
    if runs and at < len(plain):
        runs[-1] = runs[-1]._replace(end=len(plain))
    pieces = [Piece(place(piece.start), place(piece.end)) for piece in outside]
    return Marked(plain, tuple(runs)), [*pieces, Piece(head, len(plain) - tail)]


def misplaced_runs(text: Marked, request: Request) -> list[Run]:
    """Runs that claim to copy a field and do not: always empty unless this package has a bug."""
    plain = str.__str__(text)
    known: Origin | None = None
    value: Any = None
    wrong = []
    for run in [run for run in text._runs if run[3] >= 0]:
        start, end, origin, source = run
        if origin is not known:
            known, value = origin, _lookup(request, origin[0])
        if not isinstance(value, str):
            wrong.append(run)
        elif end - start == len(value):
            # To compare in place is quicker than to cut out what is compared.
            if source or not plain.startswith(value, start):
                wrong.append(run)
        elif value[source : source + end - start] != plain[start:end]:
            wrong.append(run)
    return wrong


def losses_shown(findings: Findings, owner_at: Callable[[int], int]) -> dict[int | None, Loss]:
    """For each message, and None for all, what keeps its spans from being exact: an operation that lost marks.

    What it lost may stand in any text without marks that was put out afterwards: the spans may be wrong of the messages
    that it was lost of, and of those in whose text that stands. `owner_at` tells who owns the character at an offset:
    a message, or none if it is negative.
    """
    losses, bare = findings.losses, findings.bare
    if not losses or not bare:
        return {}
    found: dict[int | None, Loss] = {}
    last = bare[-1].outputs
    for loss in losses:
        if loss.outputs <= last:
            messages = [origin.message for origin in loss.fields if origin.message is not None]
            for message in messages or [] if loss.fields else [None]:
                found.setdefault(message, loss)
    reached = [(stretch, bisect_right(losses, stretch.outputs, key=attrgetter("outputs"))) for stretch in bare]
    for stretch, before in reached:
        if before and (owner := owner_at(stretch.start)) >= 0:
            found.setdefault(owner, losses[before - 1])
    if not found:
        found.update((None, losses[before - 1]) for _, before in reached if before)
    return found


def _lookup(request: Request, path: Path) -> Any:
    if len(path) == 3 and path[0] == "messages":
        return request.messages[path[1]][path[2]]  # type: ignore[index] # most are such
    value: Any = request.messages if path[0] == "messages" else request.tools
    for step in path[1:]:
        value = value[step]
    return value
