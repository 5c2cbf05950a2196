"""Checks that stand between a marked render and the word exact."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spanparse.marks.marked import Marked
from spanparse.marks.origin import Origin, Path, Run
from spanparse.rendering.render import Request
from spanparse.shared import common_prefix

_MOST_RENDERS: Final = 16
"""How many messages are looked at one by one."""


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


def lost_messages(
    text: Marked, request: Request, unmarked: Sequence[str], render: Callable[[Request], str | None] | None
) -> list[int]:
    """Messages of which something stands in text that lost its marks on the way, so that their spans cannot be told.

    Asked after is what no run shows: contents, and names and arguments of calls. It is lost if it stands in a stretch
    of `unmarked`, or if the prompt is another with a letter of it changed. `render` gives that prompt, None if the
    template refuses it; without `render` only the stretches tell.
    """
    if not unmarked:
        return []
    paths = [run.origin.path for run in text._runs if not run.origin.literal and run.origin.message is not None]
    shown = {*(path[:3] for path in paths), *(path[:6] for path in paths)}
    hidden = {
        index: fields
        for index, message in enumerate(request.messages)
        if (fields := [(path, value) for path, value in _sayings(index, message) if path not in shown])
    }
    stretches = "\0".join(unmarked)
    lost = [i for i, fields in hidden.items() if any(isinstance(v, str) and v.strip() in stretches for _, v in fields)]
    suspects = {index: fields for index, fields in hidden.items() if index not in lost}
    if render is None or not suspects or not _shows(text, request, suspects, render):
        return lost
    few = len(suspects) <= _MOST_RENDERS
    return [*lost, *(i for i in suspects if not few or _shows(text, request, {i: suspects[i]}, render))]


def _sayings(index: int, message: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """What message `index` says: its content, and the names and arguments of its calls, if they are not blank."""
    fields: list[tuple[Path, Any]] = [(("messages", index, "content"), message.get("content"))]
    calls = message.get("tool_calls")
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            place = ("messages", index, "tool_calls", number, "function")
            fields += [((*place, name), function.get(name)) for name in ("name", "arguments")]
    return ((path, value) for path, value in fields if (value.strip() if isinstance(value, str) else value))


def _shows(
    text: str, request: Request, fields: Mapping[int, list[tuple[Path, Any]]], render: Callable[[Request], str | None]
) -> bool:
    """Whether the prompt depends on the letters of these fields of messages."""
    messages = list(request.messages)
    for index, found in fields.items():
        message = copy.deepcopy(messages[index])
        for path, value in found:
            container: Any = message
            for step in path[2:-1]:
                container = container[step]
            container[path[-1]] = _changed(value)
        messages[index] = message
    changed = render(replace(request, messages=messages))
    return changed is None or changed != text


def _changed(value: Any) -> Any:
    """`value` with the last letter or digit of each text in it made another one, or the last character if it has none.

    Little but what is shown depends on that.
    """
    if isinstance(value, str):
        at = next((at for at in range(len(value) - 1, -1, -1) if value[at].isalnum()), len(value) - 1)
        if at < 0:
            return value
        new, other = "12" if value[at].isdigit() else "xy"
        return value[:at] + (other if value[at] == new else new) + value[at + 1 :]
    if isinstance(value, dict):
        return {key: _changed(item) if key != "type" else item for key, item in value.items()}
    return [_changed(item) for item in value] if isinstance(value, list) else value


def _lookup(request: Request, path: Path) -> Any:
    if len(path) == 3 and path[0] == "messages":
        return request.messages[path[1]][path[2]]  # type: ignore[index] # most are such
    value: Any = request.messages if path[0] == "messages" else request.tools
    for step in path[1:]:
        value = value[step]
    return value
