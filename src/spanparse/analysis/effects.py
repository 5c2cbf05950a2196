"""What each variable changes: its values are tried one at a time on a few conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spanparse.analysis import probes
from spanparse.analysis.differences import differences
from spanparse.analysis.findings import Change, Effect, Variable
from spanparse.analysis.probes import Probe
from spanparse.analysis.trials import Refusal, Trials
from spanparse.analysis.variables import Read
from spanparse.spans import Rendering

TEXT: Final = "Saturday"
"""Stands for any text; a variable that prints it is a text variable."""

_CONTAINERS: Final[tuple[Any, ...]] = ([TEXT], [{"title": TEXT, "text": TEXT, "name": TEXT}], {TEXT: TEXT})
# The first that the template takes of each line: agents, chats, the least of all, and media.
_LINES: Final = (
    *((probes.AGENT, probes.THINKING_LOOP), (probes.THINKING_SYSTEM, probes.THINKING_TURNS, probes.TURNS)),
    *((probes.ONE_USER,), (probes.PICTURES,)),
)
_MOST_VALUES: Final = 8
_MOST_COMPANIONS: Final = 6
_Settings = tuple[tuple[str, Any], ...]
_Texts = Sequence[str | None]


class _Base(NamedTuple):
    """A conversation that the template takes, and its rendering without the variable."""

    probe: Probe
    rendering: Rendering


def find_variables(trials: Trials, reads: Sequence[Read]) -> tuple[Variable, ...]:
    """The variables of the template with their effects.

    A variable that changes nothing alone is tried together with each setting that does change something.
    """
    bases = list(_bases(trials, ()))
    found = {read.name: list(_effects(trials, read, bases, ())) for read in reads}
    settings = [(name, effect.value) for name, effects in found.items() for effect in effects if effect.changes]
    idle = [read for read in reads if not any(effect.changes or effect.refused for effect in found[read.name])]
    for setting in settings[:_MOST_COMPANIONS] if idle else ():
        others = list(_bases(trials, (setting,)))
        for read in idle:
            if not found[read.name] or not found[read.name][-1].together_with:
                found[read.name] += [e for e in _effects(trials, read, others, (setting,)) if e.changes]
    return tuple(Variable(name, tuple(effects)) for name, effects in found.items())


def values_of(read: Read) -> list[Any]:
    """What is tried for a variable: what the template compares it with, else true, false and a text; or containers."""
    constants = list(read.constants[:_MOST_VALUES])
    if any(isinstance(value, str) for value in constants):
        return constants
    return [*constants, *_CONTAINERS] if read.is_container else [True, False, *constants, TEXT]


def _bases(trials: Trials, settings: _Settings) -> Iterator[_Base]:
    for line in _LINES:
        for probe in line:
            outcome = trials.parse_with(probe, dict(settings)) if settings else trials.parse(probe)
            if isinstance(outcome, Rendering):
                yield _Base(probe, outcome)
                break


def _effects(trials: Trials, read: Read, bases: Sequence[_Base], settings: _Settings) -> Iterator[Effect]:
    plain = [base.rendering.text for base in bases]
    texts: list[tuple[Any, _Texts]] = []
    for value in values_of(read):
        variables = {**dict(settings), read.name: value}
        texts.append((value, [trials.render(trials.request(base.probe, variables)) for base in bases]))
    for value, shown in _meant(texts, plain):
        changes, refused = _compare(trials, bases, shown, {**dict(settings), read.name: value})
        yield Effect(value, changes, refused, settings if changes else ())


def _meant(texts: Sequence[tuple[Any, _Texts]], plain: _Texts) -> list[tuple[Any, _Texts]]:
    """The values of the kind that the variable takes, as far as their effects tell.

    A variable that prints a text takes texts, not true and false; one that does not tells true and false apart at
    most. Of several containers the first one says enough.
    """
    printed = next((shown for value, shown in texts if value == TEXT and _any_prints(shown)), None)
    meant: list[tuple[Any, _Texts]] = []
    for value, shown in texts:
        if isinstance(value, bool):
            spelled = printed and [None if text is None else text.replace(TEXT, str(value)) for text in printed]
            if printed is not None and (value is False or shown == spelled or None in shown):
                continue
        elif (
            (value == TEXT or isinstance(value, list | dict))
            and (None in shown or shown == plain or any(shown == other for _, other in meant))
        ) or (isinstance(value, list | dict) and any(isinstance(other, list | dict) for other, _ in meant)):
            continue
        meant.append((value, shown))
    return meant


def _any_prints(texts: _Texts) -> bool:
    return any(TEXT in (text or "") for text in texts)


def _compare(
    trials: Trials, bases: Sequence[_Base], shown: _Texts, variables: Mapping[str, Any]
) -> tuple[tuple[Change, ...], str | None]:
    changes: dict[str, Change] = {}
    refused = None
    for base, text in zip(bases, shown, strict=True):
        if text == base.rendering.text:
            continue
        outcome = trials.parse_with(base.probe, variables)
        if isinstance(outcome, Refusal):
            refused = outcome.reason
            continue
        for change in differences(base.rendering, outcome):
            changes.setdefault(change.says, change)
    return tuple(changes.values()), refused
