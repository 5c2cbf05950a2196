"""Counters and histograms for Prometheus, fed by the reports of requests."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, final, get_args

from runtime.report import Phase, Reason, Source
from spanparse.errors import MissingExtra

if TYPE_CHECKING:
    from runtime.completion import Completion
    from runtime.store import StoreStatus

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError as error:
    raise MissingExtra("prometheus-client", "runtime", "counting requests") from error

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_TOKENS = tuple(2**power for power in range(6, 19))


@final
class Metrics:
    """What an engine did since it started, in a registry of its own or one that is shared. Safe for several threads.

    Names begin with `spanparse_`. `text` is what a scraper reads.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._requests = self._counter("requests", "Requests, by how their answer ended.", "finish")
        self._tokens = {
            "prompt_tokens": self._counter("prompt_tokens", "Tokens of all prompts."),
            "evaluated": self._counter("evaluated_tokens", "Prompt tokens evaluated."),
            "reused": self._counter("reused_tokens", "Prompt tokens not evaluated, for a state of them was there."),
            "ideal": self._counter("ideal_tokens", "Prompt tokens that an engine which never forgets evaluates."),
            "breaks": self._counter("breaks", "Batch boundaries forced inside prompts."),
            "saves": self._counter("saves", "States saved."),
        }
        self._generated = self._counter("generated_tokens", "Tokens of all answers.")
        self._excess = self._counter("excess_tokens", "Prompt tokens evaluated beyond the ideal, by reason.", "reason")
        self._restores = self._counter("restores", "Requests that went on from a state, by where it was.", "source")
        self._checkpoint_bytes = self._gauge("checkpoint_bytes", "Bytes of all checkpoints.")
        self._stored = self._gauge("stored_bytes", "Bytes of states in a tier of the store.", "tier")
        self._limit = self._gauge("stored_bytes_limit", "The budget of a tier.", "tier")
        self._works = self._gauge("store_works", "1 if a tier took and gave states when last used, else 0.", "tier")
        self._phases = self._histogram("phase_seconds", "Seconds of each phase of a request.", _SECONDS, "phase")
        self._first = self._histogram("first_token_seconds", "Seconds until an answer could begin.", _SECONDS)
        self._lengths = self._histogram("prompt_length_tokens", "Lengths of prompts.", _TOKENS)
        # A series that appears only with its first event has no rate to alert on.
        for reason in get_args(Reason):
            self._excess.labels(reason)
        for source in get_args(Source):
            self._restores.labels(source)
        for phase in get_args(Phase):
            self._phases.labels(phase)

    def observe(self, completion: Completion) -> None:
        """Count a request that has its report."""
        report = completion.report
        self._requests.labels(completion.finish).inc()
        for name, counter in self._tokens.items():
            counter.inc(getattr(report, name))
        self._generated.inc(len(completion.output_ids))
        for excess in report.excess:
            self._excess.labels(excess.reason).inc(excess.tokens)
        if report.restored is not None:
            self._restores.labels(report.restored.source).inc()
        self._checkpoint_bytes.set(report.bytes)
        self._lengths.observe(report.prompt_tokens)
        seconds = asdict(report.seconds)
        for phase, value in seconds.items():
            self._phases.labels(phase).observe(value)
        if completion.finish != "cancelled":
            self._first.observe(sum(seconds.values()) - report.seconds.decode)

    def failed(self) -> None:
        """Count a request that ended in an error, without a report."""
        self._requests.labels("error").inc()

    def stored(self, status: StoreStatus) -> None:
        """Take over how the tiers of a store are doing. What a tier cannot tell keeps its last value."""
        for tier in status.tiers:
            if tier.bytes is not None:
                self._stored.labels(tier.tier).set(tier.bytes)
            self._limit.labels(tier.tier).set(tier.bytes_limit)
            self._works.labels(tier.tier).set(tier.problem is None)

    def text(self) -> bytes:
        """Everything in Prometheus' text format, of the type `CONTENT_TYPE_LATEST`."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"spanparse_{name}", help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str, *labels: str) -> Gauge:
        return Gauge(f"spanparse_{name}", help, labels, registry=self.registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"spanparse_{name}", help, labels, registry=self.registry, buckets=buckets)
