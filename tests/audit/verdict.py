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
from tests.audit.renaming import Renaming, check_renamed
from tests.audit.shapes import conversation, is_drawn
from tests.audit.subject import parse_case, rules_of, source_of

from spanparse import TemplateError

Outcome = Literal["exact", "inexact", "refused", "template refuses"]
"""`refused` is the parser's refusal of what the template renders; `template refuses` does not count in rates."""

SECONDS_PER_PAIR: Final = 60.0
"""Of the processor's time, so that a busy machine makes no pair slow."""

_T = TypeVar("_T")


class Verdict(NamedTuple):
    """What came of a pair.

    `reason` is that of the inexact or refused, `faults` are what the oracle found wrong. `renamed` is what became of it
    under other names for its control tokens; None if that was not asked, as it is of exact renderings alone. `rules`
    are those that decide an owner in it; without a generation prompt they are not asked for.
    """

    template: str
    shape: str
    setting: str
    generation: bool
    outcome: Outcome
    reason: str | None
    faults: tuple[Fault, ...]
    renamed: Renaming | None = None
    rules: frozenset[str] = frozenset()


def judge_template(template: Template, shapes: Sequence[str]) -> list[Verdict]:
    """The verdicts on some shapes of a template, with each setting of its kwargs, with and without generation prompt.

    A random shape meets one of the settings, drawn by its name.
    """
    verdicts = []
    for number, shape in enumerate(shapes):
        every = list(settings(template.text).items())
        for setting, values in [every[number % len(every)]] if is_drawn(shape) else every:
            case = Case(template.text, conversation(shape, template.text), {**SPECIAL_TOKENS, **values})
            for generation in (True, False):
                outcome, reason, faults, renamed = _judge(template, case, generation, number)
                pair = (template.name, shape, setting, generation)
                asked = generation and outcome in ("exact", "inexact")
                rules = rules_of(source_of(template), case, generation) if asked else frozenset()
                verdicts.append(Verdict(*pair, outcome, reason, tuple(faults), renamed, rules))
    return verdicts


def _judge(
    template: Template, case: Case, generation: bool, number: int
) -> tuple[Outcome, str | None, list[Fault], Renaming | None]:
    """The outcome, its reason, the faults and what became of it under other names; `number` chooses their style."""
    renders = case.text(generation) is not None
    try:
        rendering = _in_time(lambda: parse_case(source_of(template), case, generation))
    except TemplateError as error:
        return ("refused", type(error).__name__, [], None) if renders else ("template refuses", None, [], None)
    except _TooSlow:
        return "refused", "slow", [], None
    # Whatever else is raised is a bug that must be told from a wrong span and must not end the audit.
    except Exception as error:  # noqa: BLE001
        return "refused", "crash", [Fault("crash", None, f"{type(error).__name__}: {error}")], None
    if not renders:
        return "template refuses", None, [Fault("renders", None, "the parser renders what the template refuses")], None
    view = View(case, generation, rendering)
    outcome: Outcome = "exact" if rendering.exact else "inexact"
    reason = rendering.reason and rendering.reason.kind
    try:
        faults = _in_time(lambda: faults_of(view))
        renamed = _in_time(lambda: check_renamed(view, template, number)) if rendering.exact and generation else None
    except _TooSlow:
        return outcome, reason, [Fault("slow", None, "the oracle takes too long")], None
    if renamed is None:
        return outcome, reason, faults, None
    return outcome, reason, [*faults, *renamed.faults], renamed.outcome


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
