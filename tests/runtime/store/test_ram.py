"""The RAM tier keeps its budget at every moment and uses its buffers again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.store import Name, TierFull
from runtime.store.ram import RamTier


def name(number: int) -> Name:
    return Name("a" * 32, number, f"{number:032x}")


def save(tier: RamTier, number: int, size: int, rest: int = 0) -> None:
    tier.keep(tier.lend(size, rest), name(number), size, None)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("save"), st.integers(1, 6), st.integers(0, 70), st.integers(0, 20)),
            st.tuples(st.just("fail"), st.integers(1, 6), st.integers(0, 70), st.integers(0, 20)),
            st.tuples(st.just("use"), st.integers(1, 6), st.just(0), st.just(0)),
        ),
        max_size=40,
    )
)
def test_whatever_happens_the_budget_holds_and_each_state_stays_what_it_was(steps):
    tier = RamTier(100, lambda record: check())
    written: dict[int, int] = {}

    def check() -> None:
        assert tier.bytes <= 100
        for record in tier:
            assert (record.state == written[record.name.n_tokens]).all()

    for serial, (what, number, size, rest) in enumerate(steps):
        if what == "use":
            if name(number) in tier:
                assert tier[name(number)].name == name(number)
            continue
        slot = tier.lend(size, rest)
        assert tier.bytes <= 100
        slot.buffer[:] = serial
        if what == "fail":
            tier.give_back(slot)
        else:
            written[number] = serial
            tier.keep(slot, name(number), size, None)
        check()
        tier.check_integrity()


def test_the_least_recently_used_gives_way_and_is_there_while_it_is_told():
    told = []
    tier = RamTier(30, lambda record: told.append((record.name.n_tokens, record.name in tier)))
    for number in (1, 2, 3):
        save(tier, number, 10)
    assert tier[name(1)]
    save(tier, 4, 10)
    assert told == [(2, True)]
    assert [record.name.n_tokens for record in tier] == [3, 1, 4]


def test_a_buffer_is_used_again():
    tier = RamTier(100, lambda record: None)
    first = tier.lend(100, 0)
    tier.keep(first, name(1), 100, None)
    second = tier.lend(90, 0)
    assert second.buffer is first.buffer


def test_a_buffer_much_larger_than_needed_is_not_wasted():
    tier = RamTier(100, lambda record: None)
    tier.give_back(tier.lend(100, 0))
    save(tier, 1, 50)
    save(tier, 2, 50)
    assert len(tier) == 2


def test_what_never_fits_is_refused_before_anything_gives_way():
    tier = RamTier(100, lambda record: pytest.fail("gave way"))
    save(tier, 1, 60)
    with pytest.raises(TierFull, match="no room for 101 bytes in a budget of 100"):
        tier.lend(81, 20)
    assert name(1) in tier


def test_what_is_on_loan_counts():
    tier = RamTier(100, lambda record: None)
    slot = tier.lend(60, 0)
    with pytest.raises(TierFull):
        tier.lend(50, 0)
    tier.give_back(slot)
    assert tier.lend(50, 0).buffer.size >= 50


def test_fewer_bytes_written_than_asked_for_make_a_shorter_state():
    tier = RamTier(100, lambda record: None)
    slot = tier.lend(50, 0)
    slot.buffer[:] = np.arange(50)
    assert tier.keep(slot, name(1), 20, None).state.tolist() == list(range(20))
