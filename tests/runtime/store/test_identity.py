"""A state is used only where all that shaped its bytes is the same."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest
from tests.runtime.store.records import IDENTITY

from runtime.store import Identity, identify
from runtime.tiny import ensure_model


@pytest.mark.parametrize("name", [field.name for field in fields(Identity)])
def test_each_part_of_an_identity_counts_and_is_named(name):
    other = replace(IDENTITY, **{name: "another"})
    assert other.digest != IDENTITY.digest
    assert IDENTITY.difference(asdict(other)) == (
        f"saved with {name.replace('_', ' ')} another, here {getattr(IDENTITY, name)}"
    )


def test_the_same_identity_has_no_difference():
    assert IDENTITY.difference(asdict(IDENTITY)) is None


def test_what_an_identity_of_another_version_does_not_say_is_unknown():
    assert "unknown" in str(IDENTITY.difference({}))


def test_precision_counts_and_the_length_of_the_context_does_not():
    path = ensure_model("hybrid")
    exact = identify(path, n_ctx_seq=1024, exact=True)
    assert exact == identify(path, n_ctx_seq=4096, exact=True)
    assert exact.digest != identify(path, n_ctx_seq=1024, exact=False).digest
