from __future__ import annotations

from typing import Any

import pytest

from planner import Budget, Candidate, Costs, Existing, Likely, PlanRequest, PlanRequestError


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("prompt_tokens", {"prompt_tokens": 0}),
        ("prompt_tokens", {"prompt_tokens": True}),
        ("prompt_tokens", {"prompt_tokens": 10.0}),
        ("prompt_tokens", {"prompt_tokens": 2**31}),
        ("every_n", {"prompt_tokens": 10**6, "every_n": 10}),
        ("n_batch", {"prompt_tokens": 10**6, "n_batch": 10}),
        ("common_prefix", {"common_prefix": 101}),
        ("live", {"live": -1}),
        ("window", {"window": 0}),
        ("memory", {"memory": "sparse"}),
        ("policy", {"policy": "best"}),
        ("n_batch", {"n_batch": 0}),
        ("n_ubatch", {"n_ubatch": 0}),
        ("every_n", {"every_n": 0}),
        ("min_step", {"min_step": -1}),
        ("state_bytes", {"state_bytes": -1}),
        ("candidates[1].offset", {"candidates": (Candidate(5), Candidate(101))}),
        ("candidates[0].offset", {"candidates": (Candidate(0),)}),
        ("candidates[0].kind", {"candidates": (Candidate(5, "middle"),)}),  # type: ignore[arg-type]
        ("existing[0].offset", {"existing": (Existing(0),)}),
        ("existing[0].bytes", {"existing": (Existing(1, -1),)}),
        ("existing[0].age", {"existing": (Existing(1, 0, -1),)}),
        ("forbidden[1].end", {"forbidden": ((1, 2), (9, 8))}),
        ("forbidden[0].end", {"forbidden": ((1, 101),)}),
        ("wanted[0]", {"wanted": (0,)}),
        ("budget.checkpoints", {"budget": Budget(-1)}),
        ("budget.bytes", {"budget": Budget(bytes=-1), "state_bytes": 1}),
        ("state_bytes[1].tokens", {"state_bytes": ((5, 1), (5, 2))}),
        ("state_bytes[0].bytes", {"state_bytes": ((5, 0),)}),
        ("timeout", {"timeout": 0.0}),
        ("costs.per_break", {"costs": Costs(per_break=-0.1)}),
        ("costs.per_save", {"costs": Costs(per_save=float("nan"))}),
        ("costs.per_restore", {"costs": Costs(per_restore=float("inf"))}),
        ("costs.seconds_per_token", {"costs": Costs(seconds_per_token=0.0)}),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_field(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(PlanRequestError) as caught:
        PlanRequest(**{"prompt_tokens": 100, **values})
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_an_offset_that_is_stored_twice_is_refused() -> None:
    with pytest.raises(PlanRequestError, match=r"existing\[2\]\.offset: 7 is listed twice"):
        PlanRequest(100, existing=(Existing(7), Existing(8), Existing(7)))


def test_a_budget_in_bytes_needs_the_bytes_of_a_state() -> None:
    with pytest.raises(PlanRequestError, match="state_bytes"):
        PlanRequest(100, budget=Budget(bytes=1000))


def test_a_dense_memory_needs_no_bytes_of_a_state() -> None:
    assert PlanRequest(100, memory="dense", budget=Budget(bytes=1000)).state_bytes == 0


def test_a_stored_state_past_the_prompt_is_no_error() -> None:
    assert PlanRequest(100, existing=(Existing(5000),)).existing[0].offset == 5000


def test_media_may_be_followed_but_not_split_by_a_state() -> None:
    request = PlanRequest(100, forbidden=((10, 30),))
    assert request.allows(10)
    assert not request.allows(11)
    assert not request.allows(29)
    assert request.allows(30)
    assert request.allows(100)
    assert not request.allows(0)
    assert not request.allows(101)


def test_an_unknown_size_counts_as_the_bytes_of_a_state() -> None:
    request = PlanRequest(100, state_bytes=50)
    assert request.size_of(Existing(1)) == 50
    assert request.size_of(Existing(1, 70)) == 70


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_an_expectation_that_is_no_probability_is_refused(weight: float) -> None:
    with pytest.raises(PlanRequestError, match=r"likely\[0\]\.weight"):
        PlanRequest(1000, likely=(Likely(10, weight),))


def test_bytes_that_depend_on_the_length_are_linear_between_points_and_level_outside() -> None:
    request = PlanRequest(100, state_bytes=((10, 100), (20, 105), (40, 85)))
    assert [request.bytes_at(n) for n in (1, 10, 11, 20, 30, 40, 99)] == [100, 100, 101, 105, 95, 85, 85]
    assert request.size_of(Existing(11)) == 101


def test_bytes_that_depend_on_the_length_allow_a_budget_in_bytes() -> None:
    assert PlanRequest(100, state_bytes=((0, 1),), budget=Budget(bytes=10)).bytes_at(50) == 1
