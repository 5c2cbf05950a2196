"""Play chat requests one after another on one engine, and report on each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from runtime.engine import Engine
from runtime.errors import RunError
from runtime.report import Report
from runtime.requests import Request
from runtime.sampling import logprobs_json
from runtime.verify import Verifier
from spanparse.errors import SpanparseError


def play(
    engine: Engine, requests: Iterable[Request], *, verifier: Verifier | None = None, token_ids: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield one report line, as plain data, for each request as soon as it is done.

    A line holds `id`, the report's keys, `output` and `finish`; `logprobs`, as OpenAI gives them, if the request asks
    for them; with `token_ids` the prompt's too; with a `verifier` `verify`, which is null where there is no answer to
    compare. A request that fails has finish `error`, its `error` in one line, and null for
    everything unknown; the next one is played all the same.
    """
    for request in requests:
        line: dict[str, Any] = {"schema_version": 1, "id": request.id}
        try:
            completion = engine.generate(request, logits=verifier is not None)
            line |= completion.report.to_json()
            line |= {"output": completion.output, "finish": completion.finish}
            if request.sampling.top_logprobs is not None:
                line["logprobs"] = logprobs_json(engine.model, completion.logprobs)
            if token_ids:
                line["token_ids"] = list(completion.token_ids)
            if verifier is not None:
                cancelled = completion.finish == "cancelled"
                line["verify"] = None if cancelled else verifier.check(completion).to_json()
        except (RunError, SpanparseError) as error:
            line |= dict.fromkeys((field.name for field in fields(Report)), None)
            line |= {"output": None, "finish": "error", "error": str(error)}
        yield line
