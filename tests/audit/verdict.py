"""One pair of template and conversation: what the parser says of it, and whether the oracle agrees."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeVar

from tests.audit.case import Case
from tests.audit.corpus import Template
from tests.audit.kwargs import SPECIAL_TOKENS, settings
from tests.audit.oracle import Fault, View, faults_of
from tests.audit.shapes import SHAPES, conversation
from tests.audit.subject import parse_case, source_of

from spanparse import TemplateError, TemplateSource

Outcome = Literal["exact", "inexact", "refused", "template refuses"]
"""`refused` is the parser's refusal of what the template renders; `template refuses` does not count in rates."""

SECONDS_PER_PAIR: Final = 60.0
"""Of the processor's time, so that a busy machine makes no pair slow."""

_T = TypeVar("_T")


class Verdict(NamedTuple):
    """What came of a pair; `reason` is that of the inexact or refused, `faults` are what the oracle found wrong."""

    template: str
    shape: str
    setting: str
    generation: bool
    outcome: Outcome
    reason: str | None
    faults: tuple[Fault, ...]


def judge_template(template: Template, shapes: Sequence[str] = tuple(SHAPES)) -> list[Verdict]:
    """The verdicts on all shapes of a template, with each setting of its kwargs, with and without generation prompt."""
    source = source_of(template)
    verdicts = []
    for shape in shapes:
        for setting, values in settings(template.text).items():
            case = Case(template.text, conversation(shape, template.text), {**SPECIAL_TOKENS, **values})
            for generation in (True, False):
                outcome, reason, faults = _judge(source, case, generation)
                verdicts.append(Verdict(template.name, shape, setting, generation, outcome, reason, tuple(faults)))
    return verdicts


def _judge(source: TemplateSource, case: Case, generation: bool) -> tuple[Outcome, str | None, list[Fault]]:
    renders = case.text(generation) is not None
    try:
        rendering = _in_time(lambda: parse_case(source, case, generation))
    except TemplateError as error:
        return ("refused", type(error).__name__, []) if renders else ("template refuses", None, [])
    except _TooSlow:
        return "refused", "slow", []
    # Whatever else is raised is a bug that must be told from a wrong span and must not end the audit.
    except Exception as error:  # noqa: BLE001
        return "refused", "crash", [Fault("crash", None, f"{type(error).__name__}: {error}")]
    if not renders:
        return "template refuses", None, [Fault("renders", None, "the parser renders what the template refuses")]
    try:
        faults = _in_time(lambda: faults_of(View(case, generation, rendering)))
    except _TooSlow:
        faults = [Fault("slow", None, "the oracle takes too long")]
    return ("exact" if rendering.exact else "inexact"), rendering.reason and rendering.reason.kind, faults


class _TooSlow(BaseException):
    """Not an `Exception`, so that nothing on the way takes it for one of its own."""


def _in_time(work: Callable[[], _T]) -> _T:
    with _alarm():
        return work()


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_PAIR)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
