"""Who is told what happens to requests and states: the log, and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from runtime.logs import log_end, log_failure, log_request

if TYPE_CHECKING:
    from runtime.completion import Completion
    from runtime.metrics import Metrics
    from runtime.store import StoreStatus


@final
class Observer:
    """Writes the log, and counts in `metrics` if there are any. Several threads may use it."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics

    def answered(self, completion: Completion, request_id: str | None) -> None:
        """A request has its answer, or was cancelled."""
        log_request(completion, request_id)
        if self._metrics is not None:
            self._metrics.observe(completion)

    def failed(self, error: Exception, request_id: str | None) -> None:
        """A request has ended in an error."""
        log_failure(error, request_id)
        if self._metrics is not None:
            self._metrics.failed()

    def ended(self, error: BaseException) -> None:
        """Nothing more is answered because of this error."""
        log_end(error)

    def stored(self, status: Callable[[], StoreStatus]) -> None:
        """The store may have changed; `status` asks all its tiers, which takes time."""
        if self._metrics is not None:
            self._metrics.stored(status())
