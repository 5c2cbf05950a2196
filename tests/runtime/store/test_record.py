"""What is written down is read back or refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.store import StateRefused
from runtime.store.record import HEAD_BYTES, logits_bytes, read_head, write_head


def test_a_head_says_what_was_written(record, identity):
    written = record(7)
    head = read_head(write_head(written, identity), written.name)
    assert head.size == written.size
    logits = head.check(bytes(logits_bytes(written)), written.state)
    assert np.array_equal(logits, written.logits)


def test_a_record_without_logits_has_none(record, identity):
    written = record(7, n_logits=0)
    assert read_head(write_head(written, identity), written.name).check(b"", written.state) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, HEAD_BYTES - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_head_is_refused(record, identity, at, bit):
    written = record(7)
    data = bytearray(write_head(written, identity))
    data[at] ^= 1 << bit
    with pytest.raises(StateRefused):
        read_head(bytes(data), written.name)


def test_a_flipped_bit_behind_the_head_is_refused(record, identity):
    written = record(7)
    head = read_head(write_head(written, identity), written.name)
    logits, state = bytes(logits_bytes(written)), written.state.copy()
    state[1234] ^= 1
    with pytest.raises(StateRefused, match="checksum of its state"):
        head.check(logits, state)
    with pytest.raises(StateRefused, match="checksum of its logits"):
        head.check(logits[:-1] + b"x", written.state)


def test_another_format_version_is_named(record, identity):
    data = bytearray(write_head(record(7), identity))
    struct.pack_into("<I", data, 8, 9)
    with pytest.raises(StateRefused, match="its format version is 9, this reads 1"):
        read_head(bytes(data), record(7).name)


def test_a_record_under_another_name_is_refused(record, identity):
    with pytest.raises(StateRefused, match="says that it is"):
        read_head(write_head(record(7), identity), record(8).name)
