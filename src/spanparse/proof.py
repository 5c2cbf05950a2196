"""Checks that stand between a marked render and the word exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spanparse.marks.marked import Marked
from spanparse.marks.origin import Origin, Path, Run
from spanparse.rendering.render import Request


def transfer(marked: Marked, plain: str) -> Marked:
    """The runs of `marked` laid on a plain render that differs from it.

    Offsets inside the common prefix and the common suffix carry over; what lies between is clamped. The result is an
    approximation and must be called inexact.
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
    return Marked(plain, tuple(runs))


def common_prefix(a: str, b: str) -> int:
    """How many leading characters two texts share; compares whole blocks, so that long texts cost little."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


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


def lost_messages(text: Marked, request: Request, unmarked: Sequence[str]) -> list[int]:
    """Messages whose content stands in text that lost its marks on the way, so that their spans cannot be told."""
    if not unmarked:
        return []
    shown = {run.origin.path[1] for run in text._runs if not run.origin.literal and run.origin.message is not None}
    lost = []
    for index, message in enumerate(request.messages):
        content = message.get("content")
        if index in shown or not isinstance(content, str) or not content.strip():
            continue
        if any(content.strip() in stretch for stretch in unmarked):
            lost.append(index)
    return lost


def _lookup(request: Request, path: Path) -> Any:
    if len(path) == 3 and path[0] == "messages":
        return request.messages[path[1]][path[2]]  # type: ignore[index] # most are such
    value: Any = request.messages if path[0] == "messages" else request.tools
    for step in path[1:]:
        value = value[step]
    return value
