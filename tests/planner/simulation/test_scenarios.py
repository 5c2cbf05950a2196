"""What users report, replayed: on a line by `replay_line`, and where conversations alternate on a tree."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from planner import Budget, Candidate, PlanRequest
from planner.learning import Planner
from planner.simulation import token_session
from planner.simulation.line import replay_line
from planner.simulation.outcome import Outcome
from planner.simulation.tree import replay_tree

New = Callable[..., Any]
Prompt = tuple[tuple[int, ...], tuple[Candidate, ...]]


def on_a_line(prompts: Iterable[Prompt], k: int = 8) -> list[Outcome]:
    return list(replay_line(token_session("s", prompts), PlanRequest(1, budget=Budget(k)), Planner()))


def on_a_tree(prompts: Iterable[Prompt], k: int = 8) -> list[Outcome]:
    return list(replay_tree(token_session("s", prompts), PlanRequest(1, budget=Budget(k)), Planner()))


def with_system(new: New, static: int, dynamic: int, identity: int) -> Any:
    """A conversation whose system text is the same up to `static` tokens."""
    conversation = new().add("system", static, identity=1)
    conversation.tokens += range(1_000_000 * identity, 1_000_000 * identity + dynamic)
    return conversation


def grown(conversation: Any, rounds: int, length: int, seed: int = 0) -> Any:
    """The conversation with user messages and answers of about `length` tokens, like no others."""
    pick = random.Random(seed)
    for number in range(rounds):
        for i, role in enumerate(("user", "assistant")):
            size = pick.randint(length // 2, length)
            conversation.add(role, size, identity=10_000 + 1000 * seed + 2 * number + i)
    return conversation


def test_s02_an_empty_thought_in_the_generation_prompt_costs_eight_tokens_at_most(new_conversation: New) -> None:
    history, prompts = new_conversation().add("system", 9000), []
    for _ in range(6):
        prompts.append(history.add("user", 300).prompt())
        history.add("assistant", 200)
    assert all(outcome.replay <= 8 for outcome in on_a_line(prompts))


@pytest.mark.parametrize("k", [4, 8])
def test_s03_an_edit_far_back_restores_within_one_spacing(new_conversation: New, k: int) -> None:
    pick = random.Random(3)
    history, prompts, ends = new_conversation().add("system", 2000).add("user", 300), [], []
    for _ in range(60):
        prompts.append(history.prompt())
        history.add("assistant", 40).add("tool", pick.randint(40, 1600))
        ends.append(len(history.tokens))
    edited = history.copy()
    edited.tokens[ends[19] + 5] = -7
    *before, last = on_a_line([*prompts, edited.prompt()], k)
    kept = (0, *before[-1].kept)
    spacing = max(b - a for a, b in zip(kept, (*kept[1:], len(history.tokens)), strict=True))
    assert last.restored > 0
    assert last.replay <= spacing


def test_s07_the_static_part_of_a_volatile_system_text_is_learned(new_conversation: New) -> None:
    prompts = []
    for identity in (2, 3, 4):
        conversation = with_system(new_conversation, 14_115, 795, identity)
        prompts += [conversation.add("user", 50, identity=identity).prompt()]
        prompts += [conversation.add("assistant", 60).add("user", 40).prompt()]
    outcomes = on_a_line(prompts)
    assert outcomes[4].shared == outcomes[4].restored == 14_115


def test_s08_a_branch_that_was_left_is_gone_back_to(new_conversation: New) -> None:
    left = grown(new_conversation().add("system", 5000), 20, 2000)
    fork = left.copy()
    fork.tokens, fork.candidates = left.tokens[:25_000], [c for c in left.candidates if c.offset <= 25_000]
    prompts = [left.add("user", 60).prompt(), fork.add("user", 90, identity=7).prompt()]
    prompts.append(left.add("assistant", 100).add("user", 50).prompt())
    *_, back = on_a_tree(prompts)
    assert back.replay <= 64


def test_s12_side_requests_cost_the_main_conversation_64_tokens_at_most(new_conversation: New) -> None:
    main = grown(new_conversation().add("system", 9000), 30, 2300)
    title = new_conversation().add("system", 200, identity=8).add("user", 100, identity=9)
    helper = new_conversation().add("system", 6000, identity=5).add("user", 1000, identity=6)
    prompts = [main.add("user", 60).prompt(), title.prompt(), helper.prompt()]
    prompts.append(main.add("assistant", 100).add("user", 50).prompt())
    *_, back = on_a_tree(prompts)
    assert back.shared > 50_000
    assert back.replay <= 64


def test_s13_conversations_that_take_turns_keep_their_ends(new_conversation: New) -> None:
    start = new_conversation().add("system", 10_000, identity=1)
    three = [start.copy().add("user", 400, identity=20 + i) for i in range(3)]
    prompts = []
    for number in range(10):
        for i, conversation in enumerate(three):
            prompts.append(conversation.prompt())
            identity = 100 + 10 * number + 3 * i
            conversation.add("assistant", 500, identity=identity).add("user", 300, identity=identity + 1)
    assert all(outcome.replay <= 8 for outcome in on_a_tree(prompts)[3:])


def test_s14_clients_that_share_the_system_text_only_find_it_each_time(new_conversation: New) -> None:
    start = new_conversation().add("system", 8000, identity=1)
    clients = [start.copy().add("user", 400, identity=20 + i) for i in range(2)]
    prompts = []
    for number in range(6):
        for i, client in enumerate(clients):
            prompts.append(client.prompt())
            identity = 100 + 10 * number + 3 * i
            client.add("assistant", 500, identity=identity).add("user", 300, identity=identity + 1)
    assert all(outcome.restored >= 8000 for outcome in on_a_line(prompts)[1:])


@pytest.mark.parametrize("normalised", [True, False])
def test_s15_a_token_that_changes_in_the_first_line_costs_all_unless_it_is_normalised(
    new_conversation: New, normalised: bool
) -> None:
    history, prompts = new_conversation().add("system", 9000), []
    for number in range(4):
        history.add("user", 200)
        if not normalised:
            history.tokens[40] = -1000 - number
        prompts.append(history.prompt())
        history.add("assistant", 300)
    later = on_a_line(prompts)[1:]
    if normalised:
        assert all(outcome.replay <= 8 for outcome in later)
    else:
        assert all(outcome.restored <= outcome.shared == 40 for outcome in later)


@pytest.mark.parametrize("tools_first", [True, False])
def test_s16_a_new_date_keeps_what_stands_before_it(new_conversation: New, tools_first: bool) -> None:
    date, rest = (8960, 40) if tools_first else (1960, 7040)
    prompts = []
    for day in range(3):
        conversation = with_system(new_conversation, date, rest, 2 + day)
        prompts.append(grown(conversation, 10, 300, seed=day).add("user", 50).prompt())
    outcomes = on_a_line(prompts)
    assert outcomes[1].shared == date
    assert outcomes[2].restored == date


def test_s17_tools_that_are_listed_in_another_order_keep_what_is_listed_alike(new_conversation: New) -> None:
    prompts = []
    for order in range(4):
        conversation = with_system(new_conversation, 3000, 6000, 2 + order % 2)
        prompts.append(grown(conversation, 10, 600, seed=order).add("user", 50).prompt())
    outcomes = on_a_line(prompts)
    assert [outcome.restored for outcome in outcomes[2:]] == [3000, 3000]


def test_s17_a_tool_that_is_added_at_the_end_keeps_all_before_it(new_conversation: New) -> None:
    first = new_conversation().add("system", 9000, identity=1)
    first.tokens[8990:] = range(-500, -490)
    second = new_conversation().add("system", 9000, identity=1)
    second.tokens[8990:] = range(-600, -100)
    prompts = [grown(c, 5, 300).add("user", 50).prompt() for c in (first, second)]
    assert on_a_line(prompts)[1].restored >= 0.8 * 9000


def test_s18_a_compaction_request_appended_keeps_nearly_all_and_a_foreign_one_nothing(new_conversation: New) -> None:
    history = grown(new_conversation().add("system", 9000), 25, 2300)
    long = history.add("user", 100).prompt()
    appended = history.copy().add("assistant", 200).add("user", 300).prompt()
    foreign = new_conversation().add("system", 300, identity=77).add("user", 40_000, identity=78).prompt()
    assert on_a_line([long, appended])[1].restored >= 0.87 * len(appended[0])
    assert on_a_line([long, foreign])[1].restored == 0


def test_s19_a_summary_in_place_of_the_history_keeps_system_text_and_tools(new_conversation: New) -> None:
    start = new_conversation().add("system", 9000, identity=1)
    history, prompts = start.copy(), []
    for _ in range(20):
        prompts.append(history.add("user", 200).prompt())
        history.add("assistant", 1500)
    prompts.append(start.copy().add("user", 2500, identity=55).prompt())
    assert on_a_line(prompts)[-1].restored == 9000


def test_s20_an_entry_inserted_near_the_end_each_turn_replays_little(new_conversation: New) -> None:
    messages = [list(range(1000 * i, 1000 * i + 200)) for i in range(20, 120)]
    prompts: list[Prompt] = []
    for turn in range(40, 90, 2):
        lore = list(range(500_000 + 1000 * turn, 500_100 + 1000 * turn))
        parts = [*messages[: turn - 4], lore, *messages[turn - 4 : turn]]
        prompts.append((tuple(token for part in parts for token in part), ()))
    outcomes = on_a_line(prompts)[5:]
    assert sum(outcome.replay for outcome in outcomes) <= 100 * len(outcomes)
    assert all(outcome.restored > 0 for outcome in outcomes)


@pytest.mark.parametrize("states", [3, 80])
def test_s29_large_states_never_exceed_the_budget(new_conversation: New, new_memory: New, states: int) -> None:
    # The memory asserts the budget at every moment, while one state replaces another too.
    size = 800 * 2**20
    memory = new_memory(Budget(bytes=states * size), PlanRequest(1, state_bytes=size))
    for number in range(5):
        conversation = new_conversation().add("system", 1000, identity=1)
        memory.run(grown(conversation, 25, 800, seed=number).prompt())
        assert 0 < len(memory.stored) <= states
