"""Structured logs: what happened as the message, everything about it in fields.

The runtime logs to children of the logger `runtime` and leaves handlers to the program. `JsonLines` is a formatter for
those who want one object a line.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from runtime.completion import Completion

# Without one, Python itself would print warnings on standard error.
logging.getLogger("runtime").addHandler(logging.NullHandler())
_log = logging.getLogger("runtime.requests")
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


@final
class JsonLines(logging.Formatter):
    """A record as one line of JSON: `time` (ISO 8601, UTC), `level`, `logger`, `event`, then the record's own fields.

    What JSON has no form for is spelled as text. `exception` holds a traceback, if there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in _OWN and key not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_request(completion: Completion, request_id: str | None = None) -> None:
    """Log a finished request at level INFO, with its report in fields; no text of prompt or answer."""
    if _log.isEnabledFor(logging.INFO):
        fields = {"id": request_id, "finish": completion.finish, "generated": len(completion.output_ids)}
        _log.info("request", extra=fields | completion.report.to_json())


def log_failure(error: Exception, request_id: str | None = None) -> None:
    """Log a request that ended in an error, at level WARNING."""
    _log.warning("request failed", extra={"id": request_id, "error": type(error).__name__, "reason": str(error)})


def log_end(error: BaseException) -> None:
    """Log what nobody foresaw and what has ended an engine, at level CRITICAL and with its traceback."""
    fields = {"error": type(error).__name__, "reason": str(error)}
    _log.critical("the engine is closed", exc_info=error, extra=fields)
