"""A store made of what a user says."""

from __future__ import annotations

import pytest

from runtime.store import StoreOptions, TierError
from runtime.tiny import ensure_model


def opened(**options):
    return StoreOptions(**options).open(ensure_model("hybrid"), n_ctx=1024, exact=True)


def limits(store):
    return [(status.tier, status.bytes_limit) for status in store.status().tiers]


def test_the_tiers_are_those_that_were_named_with_their_budgets(tmp_path, redis_server):
    redis = {"redis": redis_server.url, "redis_bytes": 30}
    with opened(ram_bytes=10, disk=tmp_path, disk_bytes=20, **redis) as store:
        assert limits(store) == [("ram", 10), ("disk", 20), ("redis", 30)]
    with opened() as store:
        assert limits(store) == [("ram", 1 << 30)]


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TierError, match=r"^disk: .*/file/states: Not a directory$"):
        opened(disk=tmp_path / "file" / "states")


def test_a_server_that_does_not_answer_is_in_the_status(tmp_path):
    with opened(redis=f"unix://{tmp_path}/socket") as store:
        assert store.status().degraded == ("redis",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ram_bytes": 0}, "ram_bytes must be at least 1, not 0"),
        ({"disk_bytes": -5}, "disk_bytes must be at least 1, not -5"),
        ({"disk": ""}, "disk must not be empty"),
        ({"redis": ""}, "redis must not be empty"),
    ],
)
def test_what_keeps_nothing_or_names_nothing_is_refused(options, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        StoreOptions(**options)
