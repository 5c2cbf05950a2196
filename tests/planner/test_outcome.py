from __future__ import annotations

from dataclasses import replace

from planner import Budget, Candidate, Existing, PlanRequest, compare, plan

REQUEST = PlanRequest(
    2000,
    (Candidate(900, "system_end"), Candidate(940, "assistant_start"), Candidate(1996, "generation_prompt")),
    common_prefix=1000,
    existing=(Existing(500, age=1), Existing(700, age=1), Existing(900, age=1), Existing(1500, age=1)),
    budget=Budget(3),
)


def test_what_is_done_is_told_in_its_order() -> None:
    made = plan(REQUEST)
    verbs = [line.split()[0] for line in made.explain(compare(REQUEST, made)).splitlines()]
    assert verbs[1:3] == ["restore", "evict"]
    assert verbs[-3:] == ["end", "expected", "instead:"]
    assert verbs.count("save") == len(made.saves)
    assert verbs.count("evict") == len(made.evict)


def test_an_eviction_stands_right_before_the_save_it_makes_room_for() -> None:
    made = plan(REQUEST)
    lines = made.explain().splitlines()
    for eviction in made.evict[1:]:
        following = next(
            line for line in lines[lines.index(evicted(lines, eviction.offset)) :] if not line.startswith("evict")
        )
        assert following.startswith("save")
        assert f"{eviction.before:,}" in following


def evicted(lines: list[str], offset: int) -> str:
    return next(line for line in lines if line.split()[:2] == ["evict", f"{offset:,}"])


def test_a_cold_start_is_told() -> None:
    assert "start            0" in plan(replace(REQUEST, common_prefix=0, existing=())).explain()


def test_a_break_without_a_save_is_told() -> None:
    text = plan(replace(REQUEST, policy="every-n", every_n=300, budget=Budget(1))).explain()
    assert "\nbreak " in text


def test_the_sums_are_the_plans() -> None:
    made = plan(REQUEST)
    found = compare(REQUEST, made)
    text = made.explain(found)
    assert text.startswith(made.explain())
    assert f"expected replay {made.expected_replay_tokens:,.1f} tokens" in text
    assert f"at best {found.optimal_replay_tokens:,.1f} ({found.optimal_replay_seconds:.3f} s)" in text
    assert f"{made.breaks} breaks and {len(made.saves)} saves ({made.overhead_seconds:.3f} s)" in text
    assert all(f"{name} {tokens:,.1f}" in text for name, tokens in found.baselines.items())
