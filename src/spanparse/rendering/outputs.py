"""From what a marked render puts out to one marked text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spanparse.bounds.limits import BIG
from spanparse.marks.marked import Marked, runs_of
from spanparse.marks.origin import NOWHERE, Origin, Run
from spanparse.rendering.cursor import Bare, Findings
from spanparse.spans import Piece

_new = tuple.__new__
# A run that is not made yet, which costs a multiple of a tuple.
_Run = tuple[int, int, Origin, int]


def assembled(outputs: Sequence[Any], findings: Findings, expect: Callable[[int], object]) -> Marked:
    """The text of `outputs` with runs that tile it.

    An output is a text, the texts of one sum as a tuple, or an origin: what the template writes for from there on. One
    in a list is what a macro writes for. Ordinary strings are the template's own text. Characters without marks are
    given to what the template, if not its macros, was writing for; `findings` is told of them, and of text that is
    given to the template though it comes from outside. `expect` is told the length of a text before it is made.
    """
    texts: list[str] = []
    runs: list[Run] = []
    current = called_for = NOWHERE
    # The template's own text from `begin` on, not yet among the runs: more of the same origin may follow.
    own: Origin | None = None
    begin = at = 0
    for place, output in enumerate(outputs):
        kind = type(output)
        if kind is str:
            origin = current
        elif kind is Origin:
            current = called_for = output
            continue
        elif (
            kind is Marked and (origin := output._origin) is not None and not (origin[2] is None and origin.is_outside)
        ):
            if not origin[1]:
                if own is not None:
                    runs.append(_new(Run, (begin, at, own, -1)))
                    own = None
                start = at
                at += len(output)
                runs.append(_new(Run, (start, at, origin, output._source)))
                texts.append(output)
                continue
            if origin is NOWHERE:
                origin = called_for
        elif kind is list:
            current = output[0]
            continue
        else:
            parts = output if kind is tuple else (output if kind is Marked else Marked(output),)
            for run in _runs_of_sum(parts, at, current, called_for, findings, place):
                origin = run[2]
                if not origin[1]:
                    if own is not None:
                        runs.append(_new(Run, (begin, run[0], own, -1)))
                        own = None
                    runs.append(_new(Run, run))
                elif own is not origin and run[1] > run[0]:
                    if own is not None and own != origin:
                        runs.append(_new(Run, (begin, run[0], own, -1)))
                        own = None
                    if own is None:
                        own, begin = origin, run[0]
            size = sum(map(len, parts))
            if size > BIG:
                expect(size)
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


def _runs_of_sum(
    parts: Sequence[Any],
    start: int,
    current: Origin,
    called_for: Origin,
    findings: Findings,
    place: int,
    *,
    adopts: bool = True,
) -> list[_Run]:
    """The runs that tile the text of `parts`, which begins at `start`: the template's own are `current`'s.

    What has no owner is given to `called_for`, and so is the text that was set aside outside all loops, but where
    another message's field was set aside with it (a system text with its separator): then it stays with that field.
    """
    runs: list[_Run] = []
    outside: list[Piece] = []
    at = covered = start
    message = called_for[2]
    adopted = foreign = False
    for part in parts:
        kind = type(part)
        if kind is str:
            runs.append((at, at + len(part), current, -1))
            covered += len(part)
        whole = part._origin if kind is Marked else None
        for first, last, origin, source in runs_of(part) if whole is None else ((0, len(part), whole, part._source),):
            if origin[2] is None and origin.is_outside:
                if first == last:
                    continue
                outside.append(Piece(at + first, at + last))
                origin, source = NOWHERE, -1
            if not origin[1]:
                foreign = foreign or origin[2] != message
            elif origin is NOWHERE and adopts:
                origin = called_for
                adopted = True
            runs.append((at + first, at + last, origin, source))
            covered += last - first
        at += len(part)
    if adopted and foreign:
        return _runs_of_sum(parts, start, current, called_for, findings, place, adopts=False)
    if covered < at:
        runs, bare = _filled(runs, start, at, called_for)
        outside += bare
        findings.bare += [Bare(*piece, place) for piece in bare]
    findings.outside += outside
    return runs


def _filled(runs: list[_Run], start: int, end: int, owner: Origin) -> tuple[list[_Run], list[Piece]]:
    """`runs` of the text [start, end), with those between them given to `owner`, and where these are."""
    filled: list[_Run] = []
    bare: list[Piece] = []
    at = start
    for run in (*runs, (end, end, NOWHERE, -1)):
        if run[0] > at:
            filled.append((at, run[0], owner, -1))
            bare.append(Piece(at, run[0]))
        filled.append(run)
        at = run[1]
    return filled[:-1], bare
