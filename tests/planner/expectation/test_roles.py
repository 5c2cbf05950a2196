from __future__ import annotations

from planner import Candidate, PlanRequest
from planner.expectation.roles import roles_of


def request(*candidates: Candidate, length: int = 1000) -> PlanRequest:
    return PlanRequest(length, candidates)


def test_the_first_user_message_begins_where_system_text_ends() -> None:
    roles = roles_of(request(Candidate(300, "system_end"), Candidate(340, "assistant_start")))
    assert roles.system_end == roles.last_user_start == 300
    assert roles.last_user_end == 340


def test_without_system_text_the_first_user_message_begins_the_prompt() -> None:
    roles = roles_of(request(Candidate(40, "assistant_start"), Candidate(90, "tool_start")))
    assert roles.last_user_start is None
    assert roles.last_user_end == 40


def test_the_last_user_message_ends_at_the_next_message_and_not_at_its_media() -> None:
    roles = roles_of(
        request(
            Candidate(300, "system_end"),
            Candidate(340, "assistant_start"),
            Candidate(500, "user_start"),
            Candidate(550, "media_end"),
            Candidate(560, "assistant_start"),
            Candidate(700, "tool_start"),
        )
    )
    assert roles.last_user_start == 500
    assert roles.last_user_end == 560


def test_the_order_of_candidates_does_not_matter() -> None:
    candidates = (Candidate(560, "assistant_start"), Candidate(500, "user_start"), Candidate(300, "system_end"))
    assert roles_of(request(*candidates)) == roles_of(request(*reversed(candidates)))


def test_the_last_stable_offset_is_the_one_before_the_first_unstable() -> None:
    roles = roles_of(
        request(
            Candidate(300, "system_end", True),
            Candidate(400, "assistant_start", True),
            Candidate(500, "tool_start", False),
            Candidate(600, "assistant_start", True),
        )
    )
    assert roles.last_stable == 400


def test_the_ends_of_tools_ascend_and_that_of_the_block_is_apart() -> None:
    candidates = [Candidate(700, "tools_end"), Candidate(500, "tool_end"), Candidate(300, "tool_end")]
    roles = roles_of(PlanRequest(1000, tuple(candidates)))
    assert (roles.tool_ends, roles.tools_end) == ((300, 500), 700)


def test_nothing_is_known_of_stability_where_no_offset_is_unstable() -> None:
    assert roles_of(request(Candidate(300, "system_end"), Candidate(400, "user_start", True))).last_stable is None


def test_the_messages_end_where_the_generation_prompt_begins() -> None:
    roles = roles_of(request(Candidate(900, "user_start"), Candidate(980, "generation_prompt"), Candidate(995)))
    assert roles.messages_end == 980


def test_without_a_generation_prompt_the_messages_end_at_an_offset_near_the_end() -> None:
    assert roles_of(request(Candidate(990), Candidate(1000))).messages_end == 990
    assert roles_of(request(Candidate(500))).messages_end == 996


def test_a_prompt_too_short_for_a_tail_has_no_such_end() -> None:
    assert roles_of(request(length=4)).messages_end is None
