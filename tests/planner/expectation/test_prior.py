from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import Candidate, Likely, PlanRequest
from planner.expectation.prior import Atom, Prior, prior_of
from planner.expectation.roles import roles_of

LENGTHS = st.integers(1, 3000)


def prior_for(length: int, candidates: tuple[Candidate, ...] = (), **rest: tuple[int, ...]) -> Prior:
    request = PlanRequest(length, candidates, **rest)  # type: ignore[arg-type]
    return prior_of(request, roles_of(request))


@given(LENGTHS)
def test_the_mass_is_one(length: int) -> None:
    assert prior_for(length).below(length + 1)[0] == pytest.approx(1)


@given(LENGTHS, st.data())
def test_the_mass_below_an_offset_never_falls(length: int, data: st.DataObject) -> None:
    prior = prior_for(length, (Candidate(data.draw(st.integers(1, length)), "system_end"),))
    offsets = sorted(data.draw(st.lists(st.integers(0, length + 1), min_size=2)))
    masses = [prior.below(offset)[0] for offset in offsets]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(masses))


@given(st.integers(1, 400))
def test_the_moment_is_the_sum_of_the_offsets(length: int) -> None:
    prior = Prior(length, [Atom(length // 2, 0.5)], 0.5)
    # Over cells so small that the spread is even in each of them.
    cells = [prior.below(offset) for offset in range(length + 2)]
    for low, (before, after) in enumerate(itertools.pairwise(cells)):
        mass, moment = after[0] - before[0], after[1] - before[1]
        assert low * mass - 1e-9 <= moment <= (low + 1) * mass + 1e-9


def test_replay_counts_from_the_nearest_state_at_or_before_the_divergence() -> None:
    prior = Prior(100, [Atom(10, 1.0), Atom(50, 2.0), Atom(90, 1.0)], 0.0)
    assert prior.replay([]) == pytest.approx((10 + 2 * 50 + 90) / 4)
    assert prior.replay([40]) == pytest.approx((10 + 2 * 10 + 50) / 4)
    assert prior.replay([50]) == pytest.approx((10 + 0 + 40) / 4)
    assert prior.replay([10, 50, 90]) == pytest.approx(0)


@given(LENGTHS, st.data())
def test_another_state_never_adds_replay(length: int, data: st.DataObject) -> None:
    prior = prior_for(length)
    kept = data.draw(st.sets(st.integers(1, length), max_size=6))
    more = kept | {data.draw(st.integers(1, length))}
    assert prior.replay(sorted(more)) <= prior.replay(sorted(kept)) + 1e-9


def test_the_same_prompt_again_needs_a_state_before_its_last_token() -> None:
    prior = prior_for(1000, (Candidate(900, "assistant_start"),))
    assert prior.replay([999]) < prior.replay([1000]) - 0.05 * 900


def test_messages_that_may_change_weigh_at_their_start() -> None:
    plain, marked = prior_for(1000), prior_for(1000, (Candidate(200, "user_start"), Candidate(600, "tool_start")))
    assert marked.below(601)[0] - marked.below(600)[0] > plain.below(601)[0] - plain.below(600)[0] + 0.01


def test_declared_offsets_and_ends_of_media_weigh_more_than_their_neighbours() -> None:
    prior = prior_for(1000, wanted=(300,), forbidden=((400, 500),))  # type: ignore[arg-type]
    for offset in (300, 500):
        assert prior.below(offset + 1)[0] - prior.below(offset)[0] > 0.05


def test_of_an_image_in_pieces_the_end_that_is_named_has_all_the_weight() -> None:
    pieces = ((400, 500), (502, 600))
    prior = prior_for(1000, (Candidate(600, "media_end"),), forbidden=pieces)  # type: ignore[arg-type]
    assert mass_at(prior, 600) > 0.05 > mass_at(prior, 500)


def test_an_expected_divergence_weighs_at_its_offset() -> None:
    plain, told = prior_for(1000), prior_for(1000, likely=(Likely(333, 0.5),))  # type: ignore[arg-type]
    assert told.below(334)[0] - told.below(333)[0] > plain.below(334)[0] - plain.below(333)[0] + 0.1


def mass_at(prior: Prior, offset: int) -> float:
    return prior.below(offset + 1)[0] - prior.below(offset)[0]


def test_the_last_whole_block_is_given_up_if_the_generation_prompt_reaches_into_it() -> None:
    lost, whole = (prior_for(length, block=64) for length in (64_001, 64_010))  # type: ignore[arg-type]
    assert lost.rate * mass_at(lost, 63_936) > 10 * whole.rate * mass_at(whole, 63_936)


def test_the_last_message_of_the_user_may_be_written_anew() -> None:
    starts = tuple(Candidate(offset, "user_start") for offset in (20_032, 40_000))
    prior = prior_for(64_010, (Candidate(9600, "system_end"), *starts), block=64)  # type: ignore[arg-type]
    assert mass_at(prior, 40_000) > 10 * mass_at(prior, 20_032)


def test_prompts_may_part_where_a_tool_ends() -> None:
    marks = (("tool_end", 300), ("tools_end", 500), ("system_end", 900), ("assistant_start", 950))
    candidates = tuple(Candidate(offset, kind) for kind, offset in marks)  # type: ignore[arg-type]
    request = PlanRequest(1000, candidates)
    prior = prior_of(request, roles_of(request))
    for offset in (300, 500):
        here, before = (prior.below(o + 1)[0] - prior.below(o)[0] for o in (offset, offset - 1))
        assert here > 2 * before
