"""How fast an engine has been lately."""

from __future__ import annotations

from typing import final

from planner import Costs
from runtime.report import Report

_DECAY = 0.9


@final
class Rate:
    """Seconds for one of something; the last ten or so requests count most, by how much they had of it."""

    def __init__(self, assumed: float) -> None:
        self._assumed = assumed
        self._seconds = 0.0
        self._count = 0.0

    def observe(self, seconds: float, count: float) -> None:
        self._seconds = _DECAY * self._seconds + seconds
        self._count = _DECAY * self._count + count

    @property
    def value(self) -> float:
        return self._seconds / self._count if self._count else self._assumed


@final
class Rates:
    """The planner's costs, measured on the requests an engine has answered; its defaults where nothing was measured."""

    def __init__(self) -> None:
        assumed = Costs()
        self._token = Rate(assumed.seconds_per_token)
        self._save = Rate(assumed.per_save)
        self._restore = Rate(assumed.per_restore)

    def observe(self, report: Report) -> None:
        """Take a request into account that has ended."""
        self._token.observe(report.seconds.prefill, report.evaluated)
        self._save.observe(report.seconds.save, report.saves)
        self._restore.observe(report.seconds.restore, report.restored is not None)

    def costs(self) -> Costs:
        """What a token, a save and a restore take, in seconds."""
        return Costs(seconds_per_token=self._token.value, per_save=self._save.value, per_restore=self._restore.value)
