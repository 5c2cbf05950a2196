"""From what a marked render puts out to one marked text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spanparse.bounds.limits import BIG
from spanparse.marks.marked import Marked, runs_of
from spanparse.marks.origin import NOWHERE, Origin, Run

_new = tuple.__new__


def assembled(outputs: Sequence[Any], lost: list[str], expect: Callable[[int], object]) -> Marked:
    """The text of `outputs` with runs that tile it.

    An output is a text, the texts of one sum as a tuple, or an origin: what the template writes for from there on. One
    in a list is what a macro writes for. Ordinary strings are the template's own text. Characters without marks are
    given to what the template, if not its macros, was writing for, and appended to `lost`. `expect` is told the length
    of a text before it is made.
    """
    texts: list[str] = []
    runs: list[Run] = []
    current = called_for = NOWHERE
    # The template's own text from `begin` on, not yet among the runs: more of the same origin may follow.
    own: Origin | None = None
    begin = at = 0
    for output in outputs:
        kind = type(output)
        if kind is str:
            origin = current
        elif kind is Origin:
            current = called_for = output
            continue
        elif kind is list:
            current = output[0]
            continue
        elif kind is Marked and (whole := output._origin) is not None and whole is not NOWHERE:
            if not whole[1]:
                if own is not None:
                    runs.append(_new(Run, (begin, at, own, -1)))
                    own = None
                start = at
                at += len(output)
                runs.append(_new(Run, (start, at, whole, output._source)))
                texts.append(output)
                continue
            origin = whole
        else:
            parts = output if kind is tuple else (output if kind is Marked else str(output),)
            size = sum(map(len, parts))
            if size > BIG:
                expect(size)
            for run in _runs_of_sum(parts, at, current, called_for, lost):
                origin = run[2]
                if own is not origin:
                    if own is not None and own != origin:
                        runs.append(_new(Run, (begin, run[0], own, -1)))
                        own = None
                    if not origin[1]:
                        runs.append(run)
                    elif own is None:
                        own, begin = origin, run[0]
            at += size
            texts += parts
            continue
        if own is not origin and output:
            if own is not None and own != origin:
                runs.append(_new(Run, (begin, at, own, -1)))
                own = None
            if own is None:
                own, begin = origin, at
        at += len(output)
        texts.append(output)
    if own is not None:
        runs.append(_new(Run, (begin, at, own, -1)))
    expect(at)
    return Marked("".join(texts), tuple(runs))


def _runs_of_sum(parts: Sequence[Any], start: int, current: Origin, called_for: Origin, lost: list[str]) -> list[Run]:
    """The runs that tile the text of `parts`, which begins at `start`: the template's own are `current`'s.

    What has no owner is given to `called_for`, and so is the text that was set aside outside all loops, but where
    another message's field was set aside with it (a system text with its separator): then it stays with that field.
    """
    runs: list[Run] = []
    at = covered = start
    settled = True
    for part in parts:
        kind = type(part)
        size = len(part)
        if kind is str:
            if size:
                runs.append(_new(Run, (at, at + size, current, -1)))
            covered += size
        elif kind is Marked and (whole := part._origin) is not None:
            runs.append(_new(Run, (at, at + size, whole, part._source)))
            covered += size
            settled = settled and whole is not NOWHERE
        else:
            for begin, end, origin, source in runs_of(part):
                runs.append(_new(Run, (at + begin, at + end, origin, source)))
                covered += end - begin
                settled = settled and origin is not NOWHERE
        at += size
    if settled and covered == at:
        return runs
    adopts = called_for is not NOWHERE and all(
        literal or message == called_for.message for _, _, (_, literal, message), _ in runs
    )
    filled: list[Run] = []
    at, end = start, at
    text: str | None = None
    for run in (*runs, Run(end, end, NOWHERE, -1)):
        begin, end, origin, source = run
        if begin > at:
            text = "".join(parts) if text is None else text
            filled.append(Run(at, begin, called_for, -1))
            lost.append(text[at - start : begin - start])
        if end > begin or not origin.literal:
            filled.append(_new(Run, (begin, end, called_for, source)) if adopts and origin is NOWHERE else run)
        at = end
    return filled
