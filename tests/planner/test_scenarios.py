"""What users report of agents and chats, as sequences of prompts through a memory that is a line."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from planner import POLICIES, Budget, PlanRequest

New = Callable[..., Any]


def tool_rounds(history: Any, shown: Any, count: int, sizes: Callable[[], tuple[int, int, int]], run: New) -> None:
    """`count` times a prompt, then a call with reasoning and its result; `history` gets them without the reasoning."""
    for _ in range(count):
        run(shown.prompt())
        reasoning, call, result = sizes()
        identity = 1000 + len(history.tokens) + len(shown.tokens)
        history.add("assistant", call, identity=identity).add("tool", result, identity=identity + 1)
        shown.add("assistant", reasoning + call, identity=identity + 2, thinks=True)
        shown.add("tool", result, identity=identity + 1)


def agent(memory: Any, conversation: Any, *, answer: tuple[int, ...] = ()) -> None:
    """Four user turns of 5, 3, 3 and 3 tool rounds; each turn drops the reasoning of the one before."""
    conversation.add("system", 900)
    for rounds in (5, 3, 3, 3):
        conversation.add("user", 40)
        shown = conversation.copy()
        tool_rounds(conversation, shown, rounds, lambda: (50, 60, 100), lambda prompt: memory.run(prompt, answer))
        memory.run(shown.prompt(), answer)
        conversation.add("assistant", 60)


@pytest.mark.parametrize("answer", [(), (-5,) * 30], ids=["no answer", "an answer that history does not have"])
def test_an_agent_that_drops_reasoning_evaluates_next_to_the_ideal(
    new_conversation: New, new_memory: New, answer: tuple[int, ...]
) -> None:
    memory = new_memory(Budget(8))
    agent(memory, new_conversation(), answer=answer)
    assert memory.ideal <= memory.evaluated <= 1.05 * memory.ideal


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("k", [0, 1, 2, 3, 5, 8])
def test_every_policy_can_be_executed_within_every_budget(
    new_conversation: New, new_memory: New, policy: Any, k: int
) -> None:
    memory = new_memory(Budget(k), PlanRequest(1, policy=policy, n_ubatch=64, min_step=200, every_n=300))
    agent(memory, new_conversation(), answer=(-5,) * 10)
    assert memory.evaluated >= memory.ideal


def chat(memory: Any, conversation: Any) -> None:
    """Ten user messages, each answer in history otherwise than it was sampled."""
    conversation.add("system", 500)
    for _ in range(10):
        memory.run(conversation.add("user", 100).prompt(), (-5,) * 30)
        conversation.add("assistant", 300)


def loop(memory: Any, conversation: Any) -> None:
    """Three user turns of tool rounds whose reasoning stays in history, though not as it was sampled."""
    conversation.add("system", 900)
    for rounds in (5, 3, 4):
        conversation.add("user", 40)
        for _ in range(rounds):
            memory.run(conversation.prompt(), (-5,) * 30)
            conversation.add("assistant", 110, thinks=True).add("tool", 100)
        memory.run(conversation.prompt(), (-5,) * 30)
        conversation.add("assistant", 60)


def changed_agent(memory: Any, conversation: Any) -> None:
    """The agent, with answers that history does not have."""
    agent(memory, conversation, answer=(-5,) * 30)


@pytest.mark.parametrize("play", [agent, changed_agent, chat, loop])
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "adaptive"])
@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_no_baseline_evaluates_less_than_adaptive_by_more_than_a_hundredth(
    new_conversation: New, new_memory: New, play: New, policy: Any, k: int
) -> None:
    ours, other = new_memory(Budget(k)), new_memory(Budget(k), PlanRequest(1, policy=policy))
    play(ours, new_conversation())
    play(other, new_conversation())
    assert ours.evaluated <= 1.01 * other.evaluated


def test_with_two_states_the_tail_and_the_last_user_message_are_kept(new_conversation: New, new_memory: New) -> None:
    memory = new_memory(Budget(2))
    changed_agent(memory, new_conversation())
    assert memory.evaluated <= 1.05 * memory.ideal


def test_s01_stripped_reasoning_rolls_back_to_the_previous_user_message(new_conversation: New, new_memory: New) -> None:
    pick = random.Random(1)
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 9000).add("user", 300)
    shown = history.copy()
    tool_rounds(history, shown, 5, lambda: (150, 60, pick.randint(200, 1500)), memory.run)
    memory.run(shown.prompt())
    made = memory.run(history.add("assistant", 200).add("user", 50).prompt())
    assert memory.begin(made) == 9300


def test_s01_kept_reasoning_costs_the_tail_only(new_conversation: New, new_memory: New) -> None:
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 9000).add("user", 300)
    shown = history.copy()
    tool_rounds(history, shown, 5, lambda: (150, 60, 700), memory.run)
    prompt = shown.prompt()
    memory.run(prompt, answer=(-5,) * 200)
    made = memory.run(shown.add("assistant", 260, thinks=True).add("user", 50).prompt())
    assert memory.begin(made) == len(prompt[0]) - 4


def test_s04_the_end_of_the_system_text_is_the_floor(new_conversation: New, new_memory: New) -> None:
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 6000).add("user", 300)
    tool_rounds(new_conversation(), history, 40, lambda: (0, 600, 600), memory.run)
    assert {6000, 6300} <= memory.stored.keys()
    above = min(offset for offset in memory.stored if offset > 6300)
    edited = history.copy()
    edited.tokens[above - 59] = -7
    made = memory.run(edited.prompt())
    assert memory.begin(made) == 6300
    assert f"{above - 59 - 6300} tokens are replayed" in made.restore.why


@pytest.mark.parametrize("answer", [0, 5000])
def test_s05_the_same_prompt_again_evaluates_at_most_five_tokens(
    new_conversation: New, new_memory: New, answer: int
) -> None:
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 9000)
    for _ in range(20):
        memory.run(history.add("user", 5000).prompt())
        history.add("assistant", 6000)
    prompt = history.add("user", 1000).prompt()
    memory.run(prompt, answer=(-5,) * answer)
    for _ in range(3):
        made = memory.run(prompt, answer=(-5,) * answer)
        assert 1 <= len(prompt[0]) - memory.begin(made) <= 5


def test_s06_a_new_chat_finds_the_end_of_the_system_text(new_conversation: New, new_memory: New) -> None:
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 9000)
    other = history.copy().add("user", 77, identity=900)
    for _ in range(30):
        memory.run(history.add("user", 100).prompt(), answer=(-5,) * 50)
        history.add("assistant", 400)
    assert memory.begin(memory.run(other.prompt())) == 9000


def test_s28_a_byte_budget_of_three_keeps_system_text_last_user_message_and_tip(
    new_conversation: New, new_memory: New
) -> None:
    size = int(149.6 * 2**20)
    memory = new_memory(Budget(bytes=512 * 2**20), PlanRequest(1, state_bytes=size))
    history = new_conversation().add("system", 9000)
    history.add("user", 300).add("assistant", 4000).add("user", 200)
    start = history.candidates[-1].offset
    tool_rounds(new_conversation(), history, 12, lambda: (0, 300, 900), memory.run)
    made = memory.run(history.prompt())
    system, user, tip = made.kept
    assert system == 9000
    assert user in (start, start + 200)
    assert tip == made.prompt_tokens - 4


def test_s32_a_state_as_long_as_the_prompt_is_passed_over(new_conversation: New, new_memory: New) -> None:
    history = new_conversation().add("system", 2000).add("user", 300)
    tokens, candidates = history.prompt()
    memory = new_memory(Budget(8), tokens=(*tokens, -5), stored={2000: 1, len(tokens): 1})
    made = memory.run((tokens, candidates))
    assert memory.begin(made) == 2000
    assert len(tokens) in made.kept


def test_a1_an_edit_far_back_replays_about_one_spacing(new_conversation: New, new_memory: New) -> None:
    pick = random.Random(1)
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 2000).add("user", 300)
    offsets = []
    for _ in range(60):
        memory.run(history.prompt())
        offsets.append(len(history.tokens))
        history.add("assistant", pick.randint(300, 750)).add("tool", pick.randint(300, 750))
    states = (0, *sorted(memory.stored), len(memory.tokens))
    assert max(b - a for a, b in itertools.pairwise(states)) < len(memory.tokens) / 2
    edited = history.copy()
    edited.tokens[offsets[20] + 5] = -7
    restored = memory.begin(memory.run(edited.prompt()))
    assert 0 <= offsets[20] - restored < len(history.tokens) / 4


def test_a3_short_tool_results_do_not_crowd_the_states_at_the_end(new_conversation: New, new_memory: New) -> None:
    pick = random.Random(2)
    memory, history = new_memory(Budget(16)), new_conversation().add("system", 20_000).add("user", 9000)
    tool_rounds(new_conversation(), history, 40, lambda: (0, 60, pick.randint(40, 200)), memory.run)
    memory.run(history.prompt())
    memory.run(history.add("assistant", 9000).add("user", 100).prompt())
    states = (0, *sorted(memory.stored))
    assert max(b - a for a, b in itertools.pairwise(states)) <= 9000


@pytest.mark.parametrize("k", [4, 8])
def test_a7_the_last_user_message_survives_forty_tool_rounds(new_conversation: New, new_memory: New, k: int) -> None:
    pick = random.Random(3)
    memory, history = new_memory(Budget(k)), new_conversation().add("system", 9000).add("user", 300)
    shown = history.copy()
    tool_rounds(history, shown, 40, lambda: (100, 100, pick.randint(200, 2400)), memory.run)
    memory.run(shown.prompt())
    made = memory.run(history.add("assistant", 200).add("user", 50).prompt())
    assert memory.begin(made) == 9300


def test_a_second_user_turn_moves_the_anchor_along(new_conversation: New, new_memory: New) -> None:
    memory, history = new_memory(Budget(8)), new_conversation().add("system", 3000)
    for _ in range(4):
        history.add("user", 200)
        end, shown = len(history.tokens), history.copy()
        tool_rounds(history, shown, 15, lambda: (100, 100, 600), memory.run)
        memory.run(shown.prompt())
        history.add("assistant", 300)
        made = memory.run(history.copy().add("user", 100).prompt())
        assert memory.begin(made) == end
