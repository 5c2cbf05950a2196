from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from planner import Budget, Candidate, Existing, Plan, PlanRequest, plan
from planner.optimum.stream import WORST, evenly


def planned(policy: Any, length: int = 20_000, *, stored: tuple[int, ...] = (), k: int = 8, **rest: Any) -> Plan:
    """With `stored` checkpoints, all of them shared; the first is the oldest."""
    shared = max(stored, default=0)
    existing = tuple(Existing(offset, age=len(stored) - i) for i, offset in enumerate(stored))
    values = {"common_prefix": shared, "existing": existing, "budget": Budget(k), "policy": policy, **rest}
    return plan(PlanRequest(length, **values))


class TestVariance:
    """ik_llama.cpp's server."""

    def test_saves_stand_an_interval_apart_between_batches_and_five_tokens_before_the_end(self) -> None:
        assert planned("variance").saves == (8192, 16_384, 19_995)
        assert planned("variance", every_n=512, k=32).saves[:3] == (2048, 4096, 6144)

    def test_the_one_in_a_crowd_goes(self) -> None:
        # The figures of pull request 1990: of these it erased the one at 129,715 before it saved one more.
        stored = (8192, 16_384, 24_576, 32_768, 40_960, 49_152, 57_344, 65_536, 73_728, 81_920, 90_112, 98_304, 106_496)
        stored += (112_606, 113_776, 114_308, 115_317, 116_412, 117_180, 118_032, 118_990, 120_001, 122_319, 122_741)
        stored += (123_697, 124_926, 125_438, 126_610, 127_122, 128_066, 129_715, 129_889)
        made = planned("variance", 131_120, stored=stored, k=32, every_n=10**6)
        assert [eviction.offset for eviction in made.evict] == [129_715]

    def test_the_end_of_the_last_prompt_is_pinned(self) -> None:
        existing = (Existing(3000, age=3), Existing(6000, age=1), Existing(6100, age=2), Existing(9900, age=2))
        made = planned("variance", 9999, existing=existing, common_prefix=9900, k=4)
        assert [eviction.offset for eviction in made.evict] == [6100]


class TestSmallestGap:
    """Rapid-MLX."""

    def test_saves_stand_after_batches_before_the_last_message_and_at_the_end(self) -> None:
        candidates = (
            Candidate(1000, "system_end"),
            Candidate(7000, "user_start"),
            Candidate(7996, "generation_prompt"),
        )
        assert planned("smallest-gap", 8000, candidates=candidates).saves == (2048, 4096, 6144, 7000, 8000)

    def test_the_one_closest_to_its_predecessor_goes(self) -> None:
        made = planned("smallest-gap", 9500, stored=(2000, 2300, 6000, 9000), k=4)
        assert [eviction.offset for eviction in made.evict] == [2300]


class TestLogSpaced:
    def test_distances_from_the_end_double(self) -> None:
        made = planned("log-spaced", 20_000, candidates=(Candidate(900, "system_end"),), k=32)
        assert [20_000 - offset for offset in reversed(made.saves)] == [4, 516, 1028, 2052, 4100, 8196, 16_388, 19_100]

    def test_the_end_of_the_system_text_outlives_all_others(self) -> None:
        candidates = (Candidate(900, "system_end"),)
        stored: tuple[int, ...] = ()
        for length in range(2000, 60_000, 700):
            stored = planned("log-spaced", length, candidates=candidates, stored=stored, k=6).kept
            assert stored[0] == 900
        distances = [length - offset for offset in stored[1:]]
        assert all(a <= 6 * b + 700 for a, b in pairwise(distances))


class TestMarconi:
    def test_the_place_where_prompts_part_is_saved_when_it_is_met_again(self) -> None:
        made = planned("marconi", stored=(3000,), common_prefix=7000, live=12_000)
        assert made.saves == (7000, 20_000)

    def test_a_prompt_that_extends_the_memory_parts_nowhere(self) -> None:
        assert planned("marconi", stored=(3000,), common_prefix=7000, live=7000).saves == (20_000,)

    def test_what_is_old_and_saves_little_for_its_bytes_goes(self) -> None:
        existing = (Existing(5000, 100, 9), Existing(5200, 100, 9), Existing(9000, 100, 1))
        made = planned("marconi", existing=existing, common_prefix=9000, live=9000, k=3, state_bytes=100)
        assert [eviction.offset for eviction in made.evict] == [5200]


class TestEven:
    @pytest.mark.parametrize("k", [2, 3, 4, 8, 20])
    def test_as_a_conversation_grows_no_gap_is_longer_than_promised(self, k: int) -> None:
        stored: tuple[int, ...] = ()
        for length in range(700, 60_000, 1900):
            stored = planned("even", length, stored=stored, k=k).kept
            assert max(b - a for a, b in pairwise((0, *stored, length))) <= WORST * length / (k + 1) + 1

    def test_a_smaller_budget_is_met(self) -> None:
        assert len(planned("even", stored=evenly(8, 19_000), k=3).kept) <= 3

    def test_a_budget_in_bytes_counts_the_largest_state(self) -> None:
        made = planned("even", budget=Budget(bytes=350), state_bytes=((0, 50), (20_000, 100)))
        assert made.kept == evenly(3, 20_000)
