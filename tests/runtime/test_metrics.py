"""What Prometheus is told is what the reports say."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from runtime import Request
from runtime.metrics import Metrics
from runtime.store import StoreStatus
from runtime.store.tier import TierStatus


def ask(*texts, **options):
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return Request(messages, max_tokens=3, **options)


def samples(metrics):
    """Every sample by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_counters_are_the_sums_of_the_reports(engine):
    made, metrics = engine("hybrid", checkpoints=2), Metrics()
    asked = [ask("Hello"), ask("Hello", "Hi", "Go on"), ask("Other"), ask("Hello", "Hi", "Again")]
    asked.append(ask("Never " * 300, cancel_after_tokens=1))
    completions = [made.generate(request) for request in asked]
    for completion in completions:
        metrics.observe(completion)
    found, reports = samples(metrics), [completion.report for completion in completions]
    for name, field in (
        ("prompt_tokens", "prompt_tokens"),
        ("evaluated_tokens", "evaluated"),
        ("reused_tokens", "reused"),
        ("ideal_tokens", "ideal"),
        ("breaks", "breaks"),
        ("saves", "saves"),
    ):
        assert found[f"spanparse_{name}_total",] == sum(getattr(report, field) for report in reports), name
    assert found["spanparse_requests_total", "length"] == 4
    assert found["spanparse_requests_total", "cancelled"] == 1
    assert found["spanparse_generated_tokens_total",] == 12
    excess = sum(excess.tokens for report in reports for excess in report.excess)
    by_reason = {key[1]: value for key, value in found.items() if key[0] == "spanparse_excess_tokens_total"}
    assert sum(by_reason.values()) == excess > 0
    assert found["spanparse_restores_total", "live"] + found["spanparse_restores_total", "ram"] == sum(
        report.restored is not None for report in reports
    )
    assert found["spanparse_checkpoint_bytes",] == reports[-1].bytes


def test_phases_and_lengths_are_distributed(engine):
    made, metrics = engine(), Metrics()
    completion = made.generate(ask("Hello"))
    metrics.observe(completion)
    found, report = samples(metrics), completion.report
    assert found["spanparse_phase_seconds_sum", "prefill"] == report.seconds.prefill
    assert found["spanparse_phase_seconds_count", "decode"] == 1
    assert found["spanparse_prompt_length_tokens_sum",] == report.prompt_tokens
    assert found["spanparse_first_token_seconds_count",] == 1
    assert found["spanparse_first_token_seconds_sum",] >= report.seconds.prefill


def test_every_reason_has_a_series_before_anything_happens():
    found = samples(Metrics())
    assert found["spanparse_excess_tokens_total", "evicted"] == 0
    assert found["spanparse_restores_total", "redis"] == 0


def test_failures_are_requests_that_ended_in_an_error():
    metrics = Metrics()
    metrics.failed()
    assert samples(metrics)["spanparse_requests_total", "error"] == 1


def test_tiers_of_the_store_are_told_apart():
    metrics = Metrics()
    metrics.stored(StoreStatus((TierStatus("ram", 1, 10, 100, None), TierStatus("redis", 3, 5, 50, None))))
    metrics.stored(StoreStatus((TierStatus("ram", 2, 20, 100, None), TierStatus("redis", None, None, 50, "gone"))))
    found = samples(metrics)
    assert (found["spanparse_stored_bytes", "ram"], found["spanparse_stored_bytes", "redis"]) == (20, 5)
    assert found["spanparse_stored_bytes_limit", "redis"] == 50
    assert (found["spanparse_store_works", "ram"], found["spanparse_store_works", "redis"]) == (1, 0)


def test_two_engines_do_not_share_their_numbers():
    first, second = Metrics(), Metrics()
    first.failed()
    assert ("spanparse_requests_total", "error") not in samples(second)
